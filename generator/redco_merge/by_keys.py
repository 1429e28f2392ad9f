"""Three-way merge of what a file of keys and values says, and the check that a text says it.

The values of a result are worked out of those of the three sides alone, and what is written must have them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from redco_merge.line_merge import merge_like_git

_ABSENT = object()
# Merges lists that both sides changed, or returns None.
MergeLists = Callable[[Any, Any, Any], Any]


class BothChanged(Exception):
    """Both sides changed one key, each in its way."""


def merge_values(base: Any, ours: Any, theirs: Any, lists: MergeLists) -> Any:
    """Return the value of a key, or of a file. Raises BothChanged."""
    if theirs == base or theirs == ours:
        return ours
    if ours == base:
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        old = base if isinstance(base, dict) else {}
        values = {}
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            b, o, t = (side.get(key, _ABSENT) for side in (old, ours, theirs))
            values[key] = merge_values(b, o, t, lists)
        return {key: value for key, value in values.items() if value is not _ABSENT}
    merged = lists(base, ours, theirs)
    if merged is None:
        raise BothChanged
    return merged


def merge_in_order(base: Any, ours: Any, theirs: Any) -> tuple[Any, ...] | None:
    """Return a list with what both sides changed in different places of it; None for anything else."""
    if not all(isinstance(side, tuple) for side in (base, ours, theirs)):
        return None
    merged = merge_like_git(base, ours, theirs, key=repr)
    return None if merged is None else tuple(merged)


def key_faults(
    read: Callable[[str], Any],
    lists: MergeLists,
    texts: tuple[str, str, str],
    result: str,
) -> Iterator[str]:
    """Yield what is wrong with a merge that has no conflict; nothing for what `read` cannot read.

    texts: base, ours and theirs.
    """
    try:
        base, ours, theirs = (read(side) for side in texts)
    except ValueError:
        return  # lines are all that there is
    try:
        expected = merge_values(base, ours, theirs, lists)
    except BothChanged:
        yield "you both changed one key"
        return
    try:
        says_it = read(result) == expected
    except ValueError:
        says_it = False
    if not says_it:
        yield "merged, it would not say what you and the template changed"
    if _comments(texts[1]) - _comments(texts[0]) - _comments(result):
        yield "merged, it would lack a comment of yours"


def _comments(text: str) -> Counter[str]:
    """Return what follows a # in each line: comments, and at most too much, where a text has one."""
    return Counter(line.partition("#")[2].strip() for line in text.splitlines() if "#" in line)
