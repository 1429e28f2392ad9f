"""Three-way merge of texts that consist of blocks with a key: sections, entries, directives.

A block is the same one on all sides by its key, wherever it is; what is new stays behind what it was put behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from redco_merge.lines import Region, diff3

Lines = tuple[str, ...]
# Merges lines that both sides changed, or returns None.
Resolve = Callable[[Region[str]], list[str] | None]


class Unclear(Exception):
    """Both sides changed one place, each in its way."""


@dataclass(frozen=True)
class Block:
    """A part of a text.

    key: what it is, among those beside it.
    gap: the blank lines above.
    lines: its own, without those of the blocks inside.
    inside: the blocks that it consists of besides.
    """

    key: Hashable
    gap: Lines
    lines: Lines
    inside: tuple[Block, ...] = ()

    @property
    def says(self) -> Hashable:
        """All of it, without the blank lines between blocks."""
        return self.lines, tuple(x.says for x in self.inside)


def lines_of_blocks(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the lines of blocks, in order."""
    for block in blocks:
        yield from block.gap
        yield from block.lines
        yield from lines_of_blocks(block.inside)


def merge_blocks(sides: Sequence[Sequence[Block]], resolve: Resolve) -> list[Block]:
    """Return the blocks with the changes of both sides. Raises Unclear.

    sides: base, ours, theirs.
    """
    b, o, t = (_by_key(side) for side in sides)
    merged = {key: _merge_one(b.get(key), o.get(key), t.get(key), resolve) for key in o | t}
    return [block for key in _order(list(b), list(o), list(t)) if (block := merged[key])]


def _by_key(blocks: Sequence[Block]) -> dict[Hashable, Block]:
    by_key = {block.key: block for block in blocks}
    if len(by_key) < len(blocks):
        raise Unclear
    return by_key


def _order(base: list[Hashable], ours: list[Hashable], theirs: list[Hashable]) -> list[Hashable]:
    """Return the keys of ours and theirs, in the order that one side gave to those of base."""
    shared = [key for key in base if key in ours and key in theirs]
    moved = [key for key in theirs if key in shared] != shared
    stays = [key for key in ours if key in shared] == shared
    first, second = (theirs, ours) if moved and stays else (ours, theirs)
    order = list(first)
    for i, key in enumerate(second):
        if key not in order:
            at = 1 + max((order.index(x) for x in second[:i][-1:]), default=-1)
            while first is ours and at < len(order) and order[at] not in second:
                at += 1  # the user's own comes first
            order.insert(at, key)
    return order


def _merge_one(
    base: Block | None, ours: Block | None, theirs: Block | None, resolve: Resolve
) -> Block | None:
    """Return what becomes of a block, None for nothing. Raises Unclear."""
    b, o, t = (side and side.says for side in (base, ours, theirs))
    if t == b or t == o:
        return ours
    if o == b:
        return theirs
    if not ours or not theirs:
        raise Unclear  # one side dropped what the other changed
    old = base or Block(ours.key, (), ())
    b_lines, o_lines, t_lines = ([*side.lines] for side in (old, ours, theirs))
    lines = diff3(b_lines, o_lines, t_lines, key=str.rstrip, resolve=resolve)
    if lines is None:
        raise Unclear
    inside = merge_blocks([side.inside for side in (old, ours, theirs)], resolve)
    return Block(ours.key, ours.gap, tuple(lines), tuple(inside))
