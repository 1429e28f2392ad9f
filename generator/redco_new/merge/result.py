"""What a merge gives back."""

from dataclasses import dataclass, field, replace

WHOLE = "<file>"  # the symbol of a conflict about a whole file


@dataclass(frozen=True)
class Conflict:
    """A change of the template that the merged file does not hold.

    symbol: its dotted path in the file ("Optimizer.schedule"), "line 12" in a text file, or WHOLE.
    theirs: the template's side; "" where the template removes the symbol.
    pending: True where the symbol is one of the user's own functions: a note, not a failure.
    """

    symbol: str
    theirs: str
    reason: str
    pending: bool = False


@dataclass(frozen=True)
class Merged:
    """A merged file. Where a symbol is in conflict, `content` holds the user's side of it."""

    content: bytes
    conflicts: list[Conflict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def kept_whole(ours: bytes, theirs: bytes, reason: str) -> Merged:
    """The user's file as it is, and the template's beside it."""
    return Merged(ours, [Conflict(WHOLE, readable(theirs), reason)])


def readable(data: bytes) -> str:
    """`data` as text for a person to read: bytes that are not UTF-8 are escaped."""
    return data.decode("utf-8-sig", "backslashreplace")


def not_taken(conflict: Conflict, why: str) -> Conflict:
    """`conflict`, which the user chose to take and which stays. why: "" if for its own reason."""
    told = f"{conflict.reason}; it cannot be taken by itself{why and ': '}{why}"
    return replace(conflict, reason=told)
