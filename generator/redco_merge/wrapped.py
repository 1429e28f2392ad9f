"""Blocks that one side has put into a new `with`, `if`, `try` or the like: the other side's edits go in too.

The block is taken out again, the files are merged, and what the merge has in that place is put back in.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from redco_merge.matching import shared_stretches

Lines = list[str]
Merge = Callable[[Lines, Lines, Lines], Lines | None]
# Lines that stand for the indent that was taken away: names that no file has.
_MARK = re.compile(r"REDCO_INDENT_\w+_(\d+)_(BEGIN|END)_(\d+)\s*")


class _Block(NamedTuple):
    """The lines of a block that is new around what base has.

    start, stop: in the side that has it, without its header.
    indent: the blanks that its lines have more than those of base.
    """

    start: int
    stop: int
    indent: int


def merge_wrapped(base: Lines, ours: Lines, theirs: Lines, merge: Merge) -> Lines | None:
    """Return the merge of files of which a side has put lines into a new block; None where none has.

    merge: of three texts, as lines; None where both changed one place.
    """
    mine, other = _unwrap(base, ours, "OURS"), _unwrap(base, theirs, "THEIRS")
    if mine == ours and other == theirs:
        return None
    merged = merge(base, mine, other)
    return None if merged is None else _wrap(merged, _marks(mine) | _marks(other))


def _unwrap(base: Lines, side: Lines, name: str) -> Lines:
    """Return the lines of a side without the indents of its new blocks, which marks stand for."""
    lines: Lines = []
    at = 0
    for number, block in enumerate(_new_blocks(base, side)):
        if block.start < at:
            continue  # in a block that is new as well
        newline = side[block.start][len(side[block.start].rstrip("\r\n")) :]
        begin, end = (
            f"REDCO_INDENT_{name}_{block.indent}_{x}_{number}{newline}" for x in ("BEGIN", "END")
        )
        body = [
            line[block.indent :] if line.strip() else line
            for line in side[block.start : block.stop]
        ]
        lines += [*side[at : block.start], begin, *body, end]
        at = block.stop
    return lines + side[at:]


def _new_blocks(base: Lines, side: Lines) -> Iterator[_Block]:
    """Yield the blocks of a side that are new, and hold lines of base, all shifted alike."""
    pairs = shared_stretches([x.strip() for x in base], [x.strip() for x in side])
    partner = {j + n: i + n for i, j, size in pairs for n in range(size) if side[j + n].strip()}
    for at, line in enumerate(side[:-1]):
        if at in partner or not line.split("#")[0].rstrip().endswith(":"):
            continue
        stop = _end_of_block(side, at)
        inside = [i for i in range(at + 1, stop) if i in partner]
        shifts = {_indent(side[i]) - _indent(base[partner[i]]) for i in inside}
        text = "".join(side[at + 1 : stop])
        deeper = _indent(side[at + 1]) - _indent(line)
        if shifts == {deeper} and deeper > 0 and not re.search(r"\"\"\"|'''|\\\r?\n|\t", text):
            yield _Block(at + 1, stop, deeper)


def _end_of_block(lines: Lines, header: int) -> int:
    """Return the line after the last of the block of a header."""
    stop = header + 1
    for at in range(header + 1, len(lines)):
        if lines[at].strip():
            if _indent(lines[at]) <= _indent(lines[header]):
                break
            stop = at + 1
    return stop


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _marks(lines: Lines) -> set[str]:
    return {line.strip() for line in lines if _MARK.fullmatch(line)}


def _wrap(lines: Lines, marks: set[str]) -> Lines | None:
    """Return lines with the indents that marks stand for; None where a mark is lost, or blocks cross."""
    wrapped: Lines = []
    blocks: list[tuple[str, int]] = []
    left = set(marks)
    for line in lines:
        match = _MARK.fullmatch(line)
        if match is None:
            indent = " " * sum(n for _, n in blocks)
            if blocks and re.search(r"\"\"\"|'''|\\\r?\n", line):
                return None  # a text over lines, which an indent would change
            wrapped.append(indent + line if line.strip() else line)
            continue
        if line.strip() not in left:
            return None
        left.remove(line.strip())
        name = line.strip().replace("_END_", "_BEGIN_")
        if match[2] == "BEGIN":
            blocks.append((name, int(match[1])))
        elif not blocks or blocks.pop()[0] != name:
            return None
    return None if left or blocks else wrapped
