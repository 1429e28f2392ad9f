"""The merge of a whole Python file line by line, where it is certain: tried before any other.

What neither side touched keeps its order, its blank lines and its grouping.
"""

import re
from collections.abc import Iterator

from redco_merge.by_statements import merge_statements
from redco_merge.line_merge import Overlap, merge_like_git
from redco_merge.result import MergeResult
from redco_merge.sides import warnings_of
from redco_merge.source import Source, decode_source
from redco_merge.style import has_own_width
from redco_merge.verify import line_merge_faults
from redco_merge.wrapped import merge_wrapped

Lines = list[str]
_FIRST_INDENT = re.compile(r":[ \t]*(?:#.*)?\r?\n([ \t]+)(?=\S)")


def merge_by_lines(
    base: bytes, ours: bytes, theirs: bytes, owned: tuple[str, ...]
) -> MergeResult | None:
    """Return the merge of lines; None if both changed one place, or it does not stand its check.

    Raises Unmergeable or SyntaxError where a side cannot be read.
    """
    b, o, t = (decode_source(side) for side in (base, ours, theirs))
    if len({_first_indent(o), _first_indent(t)} - {""}) > 1 or has_own_width(o, b):
        return None
    sides = _in_newline(b, o.newline), o.lines, _in_newline(t, o.newline)
    for lines, apart in _candidates(*sides):
        if _code(lines) == _code(o.lines) and _code(b.lines) != _code(t.lines):
            lines = o.lines  # the template's changes are there already, and blank lines are none
        content = o.encode(lines)
        if not line_merge_faults(base, ours, theirs, content, owned, apart):
            return MergeResult(content, [], warnings_of(b, o, t))
    return None


def _candidates(base: Lines, ours: Lines, theirs: Lines) -> Iterator[tuple[Lines, bool]]:
    """Yield (a merge of all lines, whether it is git's), the surest first; what git merges has no other."""
    plain = merge_like_git(base, ours, theirs, key=_without_ending)
    if plain is not None:
        yield plain, True
        return
    for merge in (merge_statements, _merge_places):
        if (merged := merge(base, ours, theirs)) is not None:
            yield merged, False
    if (merged := merge_wrapped(base, ours, theirs, _merge_lines)) is not None:
        yield merged, False


def _merge_places(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge by line, and by statement where both sides changed one place; None where that is unclear."""
    sides = base, ours, theirs

    def resolve(overlap: Overlap) -> Lines | None:
        return merge_statements(
            *(side[slice(*at)] for side, at in zip(sides, overlap, strict=True))
        )

    return merge_like_git(base, ours, theirs, key=_without_ending, resolve=resolve)


def _merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    lines = merge_like_git(base, ours, theirs, key=_without_ending)
    return merge_statements(base, ours, theirs) if lines is None else lines


def _in_newline(source: Source, newline: str) -> list[str]:
    return [_without_ending(line) + newline for line in source.lines]


def _code(lines: list[str]) -> list[str]:
    return [_without_ending(line) for line in lines if line.strip()]


def _without_ending(line: str) -> str:
    return line.rstrip("\r\n")


def _first_indent(source: Source) -> str:
    """Return the least indent of a block; "" where there is none."""
    return min(_FIRST_INDENT.findall("".join(source.lines)), key=len, default="")
