"""Three-way merge of lines, with the result of git wherever git has no conflict."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redco_merge.matching import Change, changes

T = TypeVar("T")


class Overlap(NamedTuple):
    """The lines of a place that both sides changed, each in its way.

    base, ours, theirs: start and end on each side.
    """

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


def merge_like_git(
    base: Sequence[T],
    ours: Sequence[T],
    theirs: Sequence[T],
    key: Callable[[T], Hashable],
    resolve: Callable[[Overlap], list[Any] | None] = lambda overlap: None,
) -> list[Any] | None:
    """Return `base` with the changes of both sides, or None where they overlap or touch.

    key: what makes two elements equal; of equal ones, ours is used.
    resolve: merges what overlaps, or returns None.
    """
    b, o, t = ([key(x) for x in side] for side in (base, ours, theirs))
    mine, others = changes(b, o), changes(b, t)
    merged: list[Any] = []
    at = 0  # in ours
    for overlap, ours_changed, theirs_changed in _places(mine, others):
        merged += ours[at : overlap.ours[0]]
        at = overlap.ours[1]
        new_ours, new_theirs = o[slice(*overlap.ours)], t[slice(*overlap.theirs)]
        if not theirs_changed or new_ours == new_theirs:
            merged += ours[slice(*overlap.ours)]
        elif not ours_changed:
            merged += theirs[slice(*overlap.theirs)]
        elif (resolved := resolve(overlap)) is not None:
            merged += resolved
        else:
            return None
    return merged + list(ours[at:])


def _places(mine: list[Change], others: list[Change]) -> Iterator[tuple[Overlap, bool, bool]]:
    """Yield (a place, whether ours changed it, whether theirs did); places do not touch."""
    a = b = 0
    shift_a = shift_b = 0  # of ours, and of theirs, against base
    while a < len(mine) or b < len(others):
        start = min(x[i].start for x, i in ((mine, a), (others, b)) if i < len(x))
        end, first_a, first_b = start, a, b
        grew = True
        while grew:
            grew = False
            while a < len(mine) and mine[a].start <= end:
                end, a, grew = max(end, mine[a].end), a + 1, True
            while b < len(others) and others[b].start <= end:
                end, b, grew = max(end, others[b].end), b + 1, True
        before = start + shift_a, start + shift_b
        shift_a = mine[a - 1].new_end - mine[a - 1].end if a > first_a else shift_a
        shift_b = others[b - 1].new_end - others[b - 1].end if b > first_b else shift_b
        after = end + shift_a, end + shift_b
        place = Overlap((start, end), (before[0], after[0]), (before[1], after[1]))
        yield place, a > first_a, b > first_b
