"""Three-way merge of a Python file, and the template's side of what the user chose."""

from collections.abc import Iterable

from redco_new.merge.guard import guarded
from redco_new.merge.result import WHOLE, Merged
from redco_new.merge.taken import Taking

OWNED = ("collate", "loss", "predict")


def merge(
    base: bytes,
    ours: bytes,
    theirs: bytes,
    owned: Iterable[str] = OWNED,
    taken: Iterable[str] = (),
) -> Merged:
    """The user's Python file `ours` with what the template changed from `base` to `theirs`.

    owned: dotted names of symbols that are never merged into once the user has edited them.
    taken: symbols of which the template's side wins where they are in conflict, as `Conflict.symbol`
    names them; one that cannot be taken by itself stays a conflict, whose reason says why.
    Pure, and never raises: where a file or a symbol cannot be merged, or the result does not stand
    an independent check, the user's side is kept and the template's is a conflict.
    """
    owned, chosen = tuple(owned), set(taken)
    merged = guarded(base, ours, theirs, owned)
    wanted = list(dict.fromkeys(x.symbol for x in merged.conflicts if x.symbol in chosen))
    if WHOLE in wanted:
        return Merged(theirs)
    return Taking(base, ours, theirs, owned, merged).merged(wanted) if wanted else merged
