"""What a merge works with and returns: the merged file, its conflicts and its warnings."""

from dataclasses import dataclass, field, replace

WHOLE = "<file>"  # the symbol of a conflict about a whole file
# Of an import that the template drops: one that the user's code needs, and one that it needed until a side was taken.
STILL_USED = "the template no longer imports `{}`; your file still uses it"
UNUSED = "the template no longer imports `{}`, and nothing in your file uses it now: leave its import out"


class Unmergeable(Exception):
    """The reason why a file can only be kept whole."""


@dataclass(frozen=True)
class Conflict:
    """A change of the template that the merged file does not hold.

    symbol: its dotted path in the file ("Optimizer.schedule"), "line 12" in a text file, or WHOLE.
    theirs: the template's side; "" where the template removes the symbol.
    reason: why the change is not in the file, for the user to read.
    pending: True where the symbol is one of the user's own functions: a note, not a failure.
    """

    symbol: str
    theirs: str
    reason: str
    pending: bool = False


@dataclass(frozen=True)
class MergeResult:
    """A merged file.

    content: the file; where a symbol is in conflict, the user's side of it.
    conflicts: the changes of the template that `content` lacks.
    warnings: what the user should know of the rest.
    """

    content: bytes
    conflicts: list[Conflict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def keep_whole(ours: bytes, theirs: bytes, reason: str) -> MergeResult:
    """Return the user's file as it is, with the template's whole file in conflict."""
    return MergeResult(ours, [Conflict(WHOLE, readable_text(theirs), reason)])


def readable_text(data: bytes) -> str:
    """Return `data` as text for a person to read: bytes that are not UTF-8 are escaped."""
    return data.decode("utf-8-sig", "backslashreplace")


def still_in_conflict(conflict: Conflict, why: str) -> Conflict:
    """Return a conflict whose template side the user chose in vain, with the reason for that.

    why: "" where the conflict's own reason is the only one.
    """
    reason = f"{conflict.reason}; it cannot be taken by itself{why and ': '}{why}"
    return replace(conflict, reason=reason)
