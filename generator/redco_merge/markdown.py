"""Markdown as sections, and their merge: by title, wherever each side has put a section."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from redco_merge.blocks import Block, Unclear, lines_of_blocks, merge_blocks
from redco_merge.lines import Region

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_TITLE = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_ITEM = re.compile(r"(?:[-*+] |\|)")  # of a list or a table, at the margin
_RULE = re.compile(r"\|[\s:|-]+$")


class Section(NamedTuple):
    """A title with what is below it, up to the next title.

    level: 1 for the highest.
    title: its words.
    start: the line of the title; the first of a text is 0.
    stop: the line after its last.
    """

    level: int
    title: str
    start: int
    stop: int


def merge_sections(base: list[str], ours: list[str], theirs: list[str]) -> list[str] | None:
    """Return lines of Markdown with the changes of both sides; None where these overlap."""
    try:
        sides = [_sections(side) for side in (base, ours, theirs)]
        return list(lines_of_blocks(merge_blocks(sides, _both_add)))
    except Unclear:
        return None


def _sections(lines: list[str]) -> list[Block]:
    """Return what precedes the first title, and the sections, each with those below it."""
    titles = _titles(lines)
    stops = [start for _, _, start in titles[1:]] + [len(lines)]
    first = titles[0][2] if titles else len(lines)
    sections = [Section(*title, stop) for title, stop in zip(titles, stops, strict=False)]
    return [_block("", lines, 0, first), *_nested(sections, lines)]


def _titles(lines: list[str]) -> list[tuple[int, str, int]]:
    """Return (level, title, line) of each title, outside of blocks of code."""
    titles = []
    fence = ""
    for i, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and (title := _TITLE.match(line)):
            titles.append((len(title[1]), title[2], i))
    return titles


def _nested(sections: Sequence[Section], lines: list[str]) -> list[Block]:
    """Return sections, those of a lower level inside the one that they follow."""
    blocks: list[Block] = []
    i = 0
    while i < len(sections):
        level, title, start, stop = sections[i]
        end = next((j for j in range(i + 1, len(sections)) if sections[j].level <= level), None)
        inside = _nested(sections[i + 1 : end], lines)
        blocks.append(_block(title, lines, start, stop, inside))
        i = len(sections) if end is None else end
    return blocks


def _block(
    title: str, lines: list[str], start: int, stop: int, inside: Sequence[Block] = ()
) -> Block:
    """Return the block of lines[start:stop]; the blank lines above are its gap, those below the next one's."""
    first = start
    while first and not lines[first - 1].strip():
        first -= 1
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    return Block(title, tuple(lines[first:start]), tuple(lines[start:stop]), tuple(inside))


def _both_add(region: Region[str]) -> list[str] | None:
    """Return the items of a list, or rows of a table, that both put in one place, ours first."""
    base, ours, theirs = region
    if base or set(ours) & set(theirs) or ours[0][:1] != theirs[0][:1]:
        return None
    return [*ours, *theirs] if _are_items(ours) and _are_items(theirs) else None


def _are_items(lines: list[str]) -> bool:
    """Tell whether lines are whole items at the margin, or rows without the line below a head."""
    items = (_ITEM.match(line) or line.startswith(" ") for line in lines)
    return bool(_ITEM.match(lines[0])) and all(items) and not any(map(_RULE.match, lines))
