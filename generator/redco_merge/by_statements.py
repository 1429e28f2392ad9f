"""The merge of a Python file: as git merges lines, and where git has a conflict, statement by statement.

Of statements, layout is no change. The places that stay in conflict have the rows of base and of theirs.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from redco_merge.limit import remember
from redco_merge.matching import Overlap, Reach, Rows, merge_like_git, partners
from redco_merge.places import Clash, Merged, merge_place
from redco_merge.statements import Statement, cut_statements
from redco_merge.wrapped import merge_wrapped

Lines = list[str]


class Outcome(NamedTuple):
    """What becomes of three texts.

    lines: of the merge; None where places are in conflict.
    places: the rows of those.
    as_git: whether git merges them so.
    """

    lines: Lines | None
    places: list[Reach]
    as_git: bool = False


def merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Outcome:
    """Return the merge of three texts.

    All lines have one ending, but for those of ours.
    """
    plain = merge_like_git(base, ours, theirs, key=_without_ending)
    if plain is None:
        outcome = _merge_statements(base, ours, theirs)
        wrapped = outcome.lines or merge_wrapped(base, ours, theirs, _lines_of_merge)
        return outcome if wrapped is None else Outcome(wrapped, [])
    if _code(plain) == _code(ours) and _code(base) != _code(theirs):
        plain = ours  # the template's changes are there already, and blank lines are none
    return Outcome(plain, [], as_git=True)


def _lines_of_merge(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    plain = merge_like_git(base, ours, theirs, key=_without_ending)
    return _merge_statements(base, ours, theirs).lines if plain is None else plain


def _merge_statements(base: Lines, ours: Lines, theirs: Lines) -> Outcome:
    sides = base, ours, theirs
    cut = [_cut(tuple(side), i) for i, side in enumerate(sides)]
    text = {
        id(x): side[x.start : x.stop] for side, own in zip(sides, cut, strict=True) for x in own
    }
    conflicts: list[Reach] = []

    def resolve(overlap: Overlap) -> Merged:
        b, o, t = (side[slice(*at)] for side, at in zip(cut, overlap, strict=True))
        try:
            return merge_place(b, o, t)
        except Clash as clash:
            base_rows = _rows(cut[0], overlap.base, clash.base)
            conflicts.append((base_rows, _rows(cut[2], overlap.theirs, clash.theirs)))
            return []

    merged = merge_like_git(cut[0], cut[1], cut[2], attrgetter("key"), resolve)
    if conflicts or merged is None:
        return Outcome(None, conflicts)
    keys = [[x.key for x in own] for own in cut]
    in_ours, in_theirs = (partners(keys[0], side) for side in keys[1:])
    for i, j in in_ours.items():  # a new layout of theirs, where ours has the old one
        old, mine = id(cut[0][i]), id(cut[1][j])
        if i in in_theirs and text[old] == text[mine]:
            text[mine] = text[id(cut[2][in_theirs[i]])]
    lines = [line for x in merged for line in (text[id(x)] if isinstance(x, Statement) else x)]
    return Outcome(lines, [])


def _rows(side: Sequence[Statement], place: Rows, own: Sequence[Statement]) -> Rows:
    """Return the lines of some statements of a place of a side; where it begins, if there are none."""
    first = side[place[0]].start
    return (own[0].start, own[-1].stop) if own else (first, first)


# A side is cut for each way to merge it. Two sides that are equal share no statement, for a merge
# knows its statements by their identity.
@remember
def _cut(lines: tuple[str, ...], side: int) -> list[Statement]:
    return cut_statements(list(lines))


def _code(lines: Lines) -> Lines:
    return [_without_ending(line) for line in lines if line.strip()]


def _without_ending(line: str) -> str:
    return line.rstrip("\r\n")
