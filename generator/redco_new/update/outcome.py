"""What becomes of one file in an update."""

from collections.abc import Collection
from dataclasses import dataclass

from redco_new.merge import OWNED, Conflict, merge, merge_text

DELETED = "you deleted it"
DROPPED = "redco no longer writes it, and you edited it: it is all yours now"


@dataclass(frozen=True)
class Outcome:
    """before, after: what the file holds, None where there is none.  conflicts: not in `after`.

    settled: the symbols that were in conflict, and of which the user has chosen a side.
    note: why it is not as the template has it.
    """

    path: str
    before: bytes | None
    after: bytes | None
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    settled: frozenset[str] = frozenset()
    note: str = ""

    @property
    def changed(self) -> bool:
        return self.before != self.after


def settle(
    path: str,
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    owned: Collection[str] = (),
    taken: Collection[str] = (),
) -> Outcome:
    """What becomes of `path`.

    base: what redco wrote; ours: what is there; theirs: what redco writes now; each None for nothing.
    owned, taken: `owned` and `prefer_theirs` of `merge`.
    """
    if theirs is None:
        kept = None if ours == base else ours
        return Outcome(path, ours, kept, note=DROPPED if kept is not None else "")
    if ours is None:
        if base is None:
            return Outcome(path, None, theirs)
        return Outcome(path, None, None, note=DELETED if base != theirs else "")
    if path.endswith(".py"):
        merged = merge(base or b"", ours, theirs, owned, prefer_theirs=taken)
    else:
        merged = merge_text(base or b"", ours, theirs, prefer_theirs=taken)
    return Outcome(path, ours, merged.content, tuple(merged.conflicts), tuple(merged.warnings))


def owned(path: str, package: str) -> tuple[str, ...]:
    """The functions of a file that are never merged into once they are edited."""
    return OWNED if path == f"{package}/pipeline.py" else ()
