"""The merge of a Python file statement by statement: layout is no change, else as git merges lines.

Where both sides changed one place, a statement that begins as another is that one, edited; these are
merged by the elements of their brackets, and definitions that both put in one place are both kept.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

from redco_merge.by_heads import Merged, merge_by_heads
from redco_merge.import_block import is_import, merge_import_block
from redco_merge.line_merge import Overlap, merge_like_git
from redco_merge.matching import partners
from redco_merge.memory import remember
from redco_merge.statements import Statement, collide, cut_statements

Lines = list[str]


def merge_statements(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Return the lines of a file with the changes of both sides, or None where these overlap.

    All lines have one ending.
    """
    sides = base, ours, theirs
    cut = [_cut(tuple(side), i) for i, side in enumerate(sides)]
    text = {
        id(x): side[x.start : x.stop] for side, own in zip(sides, cut, strict=True) for x in own
    }

    def resolve(overlap: Overlap) -> Merged | None:
        b, o, t = (side[slice(*at)] for side, at in zip(cut, overlap, strict=True))
        if (imports := merge_import_block(b, o, t)) is not None:
            return imports
        words = ([text for x in side for text in x.says] for side in (b, o, t))
        return None if collide(*words) else merge_by_heads(b, o, t)

    merged = merge_like_git(cut[0], cut[1], cut[2], _key_of, resolve)
    if merged is None:
        return None
    keys = [[x.key for x in own] for own in cut]
    in_ours, in_theirs = (partners(keys[0], side) for side in keys[1:])
    for i, j in in_ours.items():  # a new layout of theirs, where ours has the old one
        old, mine = id(cut[0][i]), id(cut[1][j])
        if i in in_theirs and text[old] == text[mine]:
            text[mine] = text[id(cut[2][in_theirs[i]])]
    merged = _once(merged, cut)
    _set_apart(merged, cut, text)
    return [line for x in merged for line in (text[id(x)] if isinstance(x, Statement) else x)]


def _once(merged: Merged, sides: Sequence[Sequence[Statement]]) -> Merged:
    """Return a merge in which an import that both sides add, each in its place, is in the first of these alone."""
    b, o, t = (Counter(x.key for x in side if not x.indent and is_import(x)) for side in sides)
    seen: set[Hashable] = set()
    left: Merged = []
    for x in merged:
        key = x.key if isinstance(x, Statement) else None
        if key is None or key not in seen or b[key] or not o[key] == t[key] == 1:
            left.append(x)
        seen.add(key)
    return left


def _set_apart(
    merged: Merged, sides: Sequence[Sequence[Statement]], text: dict[int, Lines]
) -> None:
    """Leave behind a new statement of a side the blank lines that this side has there.

    What the other side put in the same place may have taken them. text: the lines of a statement, by its identity.
    """
    base, *changed = sides
    old = {x.head for x in base}
    behind = {id(x): y for side in changed for x, y in pairwise(side) if x.head not in old}
    for x, y in pairwise(merged):
        after = behind.get(id(x))
        if after and isinstance(y, Statement) and y.words and y.key == after.key:
            lines, here = after.lines, text[id(y)]
            text[id(y)] = lines[: max(0, _blank_above(lines) - _blank_above(here))] + here


def _blank_above(lines: Lines) -> int:
    return next((i for i, line in enumerate(lines) if line.strip()), len(lines))


# A side is cut for each way to merge it. Two sides that are equal share no statement, for a merge
# knows its statements by their identity.
@remember
def _cut(lines: tuple[str, ...], side: int) -> list[Statement]:
    return cut_statements(list(lines))


def _key_of(statement: Statement) -> Hashable:
    return statement.key
