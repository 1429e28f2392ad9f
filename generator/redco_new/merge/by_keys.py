"""Three-way merge of TOML: line by line where that says what both mean, else key by key.

The values of the result are worked out of those of the three sides alone, and what is written must have them.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from redco_new.merge.lines import merge_text
from redco_new.merge.result import WHOLE, MergeResult, keep_whole

_ABSENT = object()


class _BothChanged(Exception):
    """Both sides changed one key, each in its way."""


def merge_toml(
    base: bytes, ours: bytes, theirs: bytes, prefer_theirs: Collection[str] = ()
) -> MergeResult:
    """Merge into `ours` the changes from `base` to `theirs`, as `merge_text` does, but by key.

    Where both changed one key, ours stays and the lines of theirs are a conflict. Never raises.
    """
    merged = _merge_checked(base, ours, theirs)
    preferred = {conflict.symbol for conflict in merged.conflicts} & set(prefer_theirs)
    if WHOLE in preferred:
        return MergeResult(theirs)
    return merge_text(base, ours, theirs, preferred) if preferred else merged


def _merge_checked(base: bytes, ours: bytes, theirs: bytes) -> MergeResult:
    merged = merge_text(base, ours, theirs)
    try:
        sides = [tomllib.loads(side.decode("utf-8")) for side in (base, ours, theirs)]
    except ValueError:  # no TOML, or no UTF-8: lines are all that there is
        return merged
    try:
        expected = _merge_values(*sides)
    except _BothChanged:
        return merged if merged.conflicts else keep_whole(ours, theirs, "you both changed one key")
    if not merged.conflicts and _has(merged.content, expected, base, ours):
        return merged
    content = _merge_documents(ours.decode(), theirs.decode(), sides)
    if content is not None and _has(content, expected, base, ours):
        return MergeResult(content)
    if merged.conflicts:
        return merged
    return keep_whole(ours, theirs, "merged, it would not say what you and the template changed")


def _merge_values(base: Any, ours: Any, theirs: Any) -> Any:
    """Return the value of a key, or of a file: _ABSENT for none. Raises _BothChanged."""
    if theirs == base or theirs == ours:
        return ours
    if ours == base:
        return theirs
    if isinstance(ours, dict) and isinstance(theirs, dict):
        old = base if isinstance(base, dict) else {}
        values = {
            key: _merge_values(*(side.get(key, _ABSENT) for side in (old, ours, theirs)))
            for key in [*ours, *(key for key in theirs if key not in ours)]
        }
        return {key: value for key, value in values.items() if value is not _ABSENT}
    if _are_sets(base, ours, theirs):
        gone = [x for x in base if x not in theirs]
        return [x for x in ours if x not in gone] + _new(base, ours, theirs)
    raise _BothChanged


def _are_sets(*sides: Any) -> bool:
    """Tell whether all are lists of different texts, to which each side may add, such as requirements."""
    texts = all(isinstance(side, list) and all(isinstance(x, str) for x in side) for side in sides)
    return texts and all(len(set(side)) == len(side) for side in sides)


def _new(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    return [x for x in theirs if x not in base and x not in ours]


def _merge_documents(ours: str, theirs: str, sides: list[dict[str, Any]]) -> bytes | None:
    """Return the text of ours with the changes of theirs; None where it cannot be written."""
    try:
        document = tomlkit.parse(ours)
        _change(document, tomlkit.parse(theirs), *sides)
        return tomlkit.dumps(document).encode()
    except (TOMLKitError, KeyError, ValueError, TypeError, AttributeError):
        return None


def _change(document: Any, other: Any, base: Any, ours: Any, theirs: Any) -> None:
    """Put into a table of ours what theirs changed, with the layout that it has there."""
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        b, o, t = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if t == b or t == o:
            continue
        if t is _ABSENT:
            del document[key]
        elif o == b:
            document[key] = other[key]
        elif isinstance(o, dict):
            _change(document[key], other[key], b if isinstance(b, dict) else {}, o, t)
        else:
            for x in [x for x in b if x not in t and x in o]:
                document[key].remove(x)
            document[key].extend(_new(b, o, t))


def _has(content: bytes, expected: Any, base: bytes, ours: bytes) -> bool:
    """Tell whether a text has the values that it should, the user's comments, and one line ending."""
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except ValueError:
        return False
    lost = _comments(ours) - _comments(base) - _comments(content)
    mixed = b"\r\n" in ours and content.count(b"\r\n") != content.count(b"\n")
    return values == expected and not lost and not mixed


def _comments(content: bytes) -> Counter[bytes]:
    """Return what follows a # in each line: comments, and at most too much, where a text has one."""
    return Counter(line.partition(b"#")[2].strip() for line in content.splitlines() if b"#" in line)
