"""The guard around the engine: what may not be merged is kept, whatever happens."""

import warnings
from collections.abc import Iterable

from redco_new.merge import engine, verify
from redco_new.merge.result import Merged, kept_whole
from redco_new.merge.source import Unmergeable, decode

OWNED = ("collate", "loss", "predict")


def merge(base: bytes, ours: bytes, theirs: bytes, owned: Iterable[str] = OWNED) -> Merged:
    """The user's Python file `ours` with what the template changed from `base` to `theirs`.

    owned: dotted names of symbols that are never merged into once the user has edited them.
    Pure, and never raises: where a file or a symbol cannot be merged, or the result does not stand
    an independent check, the user's side is kept and the template's is a conflict.
    """
    if theirs in (base, ours):
        return Merged(ours)
    if ours == base:
        return Merged(theirs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about the user's code
            return checked(base, ours, theirs, tuple(owned))
    except KeyboardInterrupt:
        raise
    except (Unmergeable, SyntaxError) as error:
        return kept_whole(ours, theirs, f"your file and the template's cannot be merged: {error}")
    except BaseException as error:  # whatever it is, the user's file is safer as it is
        return kept_whole(ours, theirs, f"the merge failed: {type(error).__name__}: {error}")


def checked(base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]) -> Merged:
    mine = decode(ours)
    outcome = engine.merge_sources(decode(base), mine, decode(theirs), owned)
    merged = Merged(mine.encode(outcome.lines), outcome.conflicts, outcome.warnings)
    if wrong := verify.faults(base, ours, theirs, merged, owned, outcome.renamed):
        return kept_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged
