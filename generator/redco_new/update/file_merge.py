"""What becomes of one file in an update: the three-way merge, and what is new, gone or deleted."""

from collections.abc import Collection
from dataclasses import dataclass

from redco_merge import OWNED, WHOLE, Conflict, merge, merge_document, readable_text
from redco_merge.migrate import Step

DELETED = "you deleted it"
UNKNOWN = "redco writes a file of that name by now, and yours is none of its: rename yours, or take its side"
DROPPED = "redco no longer writes it, and you edited it: it is all yours now"


@dataclass(frozen=True)
class FileMerge:
    """What becomes of one file.

    path: '/'-separated, relative to the project.
    before, after: what the file holds, None where there is none.
    conflicts: the changes of the template that `after` does not hold.
    warnings: what the merge has to say.
    resolved_symbols: those that were in conflict, and of which the user has chosen a side.
    restores: whether it is a generated file that was missing and comes back.
    note: why it is not as its user has it, or as the template has it; "" for nothing to say.
    steps: what migrations made of the user's side before it was merged.
    """

    path: str
    before: bytes | None
    after: bytes | None
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    resolved_symbols: frozenset[str] = frozenset()
    restores: bool = False
    note: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the file does not stay as it is."""
        return self.before != self.after


def merge_file(
    path: str,
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    *,
    generated: bool = False,
    user_functions: Collection[str] = (),
    prefer_theirs: Collection[str] = (),
) -> FileMerge:
    """Return what becomes of the file `path`.

    base: what redco wrote.
    ours: what the user has there.
    theirs: what redco writes now. Each of the three is None for no file.
    generated: whether it is a file of redco's, which comes back where it is missing: the project
        does not run without it. To delete one of the user's is a decision of theirs.
    user_functions: those that are never merged into once they are edited.
    prefer_theirs: the symbols in conflict of which the template's side is taken.
    """
    if theirs is None:
        after = None if ours == base else ours
        return FileMerge(path, ours, after, note=DROPPED if after is not None else "")
    if ours is None:
        if base is None:
            return FileMerge(path, None, theirs)
        if generated:
            return FileMerge(path, None, theirs, restores=True)
        return FileMerge(path, None, None, note=DELETED if base != theirs else "")
    if base is None and ours != theirs:  # of two files that are of no kin nothing is woven
        if WHOLE in prefer_theirs:
            return FileMerge(path, ours, theirs)
        return FileMerge(path, ours, ours, (Conflict(WHOLE, readable_text(theirs), UNKNOWN),))
    if path.endswith(".py"):
        merged = merge(base or b"", ours, theirs, user_functions, prefer_theirs)
    else:
        merged = merge_document(path, base or b"", ours, theirs, prefer_theirs)
    return FileMerge(path, ours, merged.content, tuple(merged.conflicts), tuple(merged.warnings))


def user_functions_of(path: str, package: str) -> tuple[str, ...]:
    """Return the functions of a file that are never merged into once they are edited."""
    return OWNED if path == f"{package}/pipeline.py" else ()
