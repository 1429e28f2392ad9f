"""Statements that both sides wrote in one place, where nothing of base is left: what one has beyond the other is kept too."""

from redco_new.merge.elements import Unclear, holds_all
from redco_new.merge.matching import shared_stretches
from redco_new.merge.statements import Statement


def merge_both_new(
    base: list[Statement], ours: list[Statement], theirs: list[Statement]
) -> list[Statement] | None:
    """Return what both wrote, once, with what only one of them wrote beside it; None where they differ."""
    b, o, t = ([x.key for x in side if x.words] for side in (base, ours, theirs))
    if {*b} & {*o, *t} or not {*o} & {*t}:
        return None
    merged: list[Statement] = []
    i = j = 0
    for in_ours, in_theirs, size in shared_stretches(
        [x.key for x in ours], [x.key for x in theirs]
    ):
        between = _fuller(ours[i:in_ours], theirs[j:in_theirs])
        if between is None:
            return None
        merged += [*between, *ours[in_ours : in_ours + size]]
        i, j = in_ours + size, in_theirs + size
    return merged


def _fuller(ours: list[Statement], theirs: list[Statement]) -> list[Statement] | None:
    """Return the side that holds all of the other; None where each has something of its own."""
    if not ours or not theirs:
        return ours or theirs
    if len(ours) != len(theirs):
        return None
    try:
        pairs = list(zip(ours, theirs, strict=True))
        if all(_holds(x, y) for x, y in pairs):
            return ours
        return theirs if all(_holds(y, x) for x, y in pairs) else None
    except Unclear:
        return None


def _holds(more: Statement, less: Statement) -> bool:
    same = more.indent == less.indent and more.remarks == less.remarks
    return same and holds_all(more.words, less.words)
