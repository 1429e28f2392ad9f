"""What two sequences share, and the merge of three, both with the results of git.

The longest common subsequence, its gaps laid as git lays them: its lengths for all beginnings of both, a row at a time in
the bits of a number (Hyyrö, 2004), on what both sides have.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from redco_merge.limit import check_time, remember

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
Block = tuple[int, int, int]  # start in the first sequence, start in the second, size
# Beginnings of one side times those of the other, of which the lengths are kept: 25 MB, and a tenth of a second. Beyond
# it, what is between the ends that both have is one change: 14,000 lines of both, none of them at its beginning or end.
_MOST_BITS = 200_000_000


def shared_stretches(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[Block, ...]:
    """Return each stretch that the two share, in order; a last one of size 0 is at their ends."""
    return _shared_stretches(tuple(a), tuple(b))


class Change(NamedTuple):
    """base[start:end] becomes side[new_start:new_end]."""

    start: int
    end: int
    new_start: int
    new_end: int


def changes(base: Sequence[Hashable], side: Sequence[Hashable]) -> list[Change]:
    """Return what a side has done to base: all between what they share, in order."""
    changed = []
    i = j = 0
    for in_base, in_side, size in shared_stretches(base, side):
        if (i, j) != (in_base, in_side):
            changed.append(Change(i, in_base, j, in_side))
        i, j = in_base + size, in_side + size
    return changed


def partners(a: Sequence[Hashable], b: Sequence[Hashable]) -> dict[int, int]:
    """Return where each element of `a` is in `b`, of those that both share."""
    return {i + n: j + n for i, j, size in shared_stretches(a, b) for n in range(size)}


def with_added(base: Collection[H], ours: Sequence[H], theirs: Sequence[H]) -> list[H]:
    """Return different elements in the order of ours, without what theirs dropped, and with what they added.

    That is behind what is above it in theirs, and behind what ours added there.
    """
    order = [x for x in ours if x in theirs or x not in base]
    for i, x in enumerate(theirs):
        if x not in ours and x not in base:
            at = max((order.index(y) + 1 for y in theirs[:i] if y in order), default=0)
            while at < len(order) and order[at] not in theirs:
                at += 1
            order.insert(at, x)
    return order


# Each way to merge two files begins with what they share.
@remember
def _shared_stretches(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> tuple[Block, ...]:
    in_a, in_b = _unmatched(a, b)
    _slide(a, in_a, in_b)
    _slide(b, in_b, in_a)
    blocks: list[Block] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if in_a[i]:
            i += 1
        elif in_b[j]:
            j += 1
        else:
            start = i, j
            while i < len(a) and j < len(b) and not in_a[i] and not in_b[j]:
                i, j = i + 1, j + 1
            blocks.append((*start, i - start[0]))
    return (*blocks, (len(a), len(b), 0))


def _unmatched(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[list[bool], list[bool]]:
    """Return for each element of either side whether the other lacks it there."""
    head, tail = common_ends(a, b)
    in_a, in_b = [False] * len(a), [False] * len(b)
    stop_a, stop_b = len(a) - tail, len(b) - tail
    shared = set(a[head:stop_a]) & set(b[head:stop_b])
    rows_a = [i for i in range(head, stop_a) if a[i] in shared]
    rows_b = [j for j in range(head, stop_b) if b[j] in shared]
    in_a[head:stop_a], in_b[head:stop_b] = [True] * (stop_a - head), [True] * (stop_b - head)
    for i, j in _common([a[i] for i in rows_a], [b[j] for j in rows_b]):
        in_a[rows_a[i]] = in_b[rows_b[j]] = False
    return in_a, in_b


def common_ends(a: Sequence[Hashable], b: Sequence[Hashable]) -> tuple[int, int]:
    """Return how many elements the two begin with, and then end with, in common."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    rest = shorter - head
    return head, next((i for i in range(rest) if a[-1 - i] != b[-1 - i]), rest)


def _common(a: list[Hashable], b: list[Hashable]) -> list[tuple[int, int]]:
    """Return the pairs (index, index) of a longest common subsequence.

    Of several that one which the algorithm of Myers (1986), and so git, comes to.
    """
    if len(a) * len(b) > _MOST_BITS:
        return []
    places: dict[Hashable, int] = {}
    for j, x in enumerate(b):
        places[x] = places.get(x, 0) | 1 << j
    whole = (1 << len(b)) - 1
    # Of i: bit j is 0 where a[:i] has more in common with b[: j + 1] than with b[:j].
    rows = [whole]
    for x in a:
        check_time()
        same = rows[-1] & places.get(x, 0)
        rows.append((rows[-1] + same | rows[-1] - same) & whole)
    pairs: list[tuple[int, int]] = []
    i, j = len(a), len(b)
    while i and j:
        bit = 1 << j - 1
        if rows[i] & bit:
            j -= 1
        elif not rows[i - 1] & bit:
            i -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


def _slide(values: Sequence[Hashable], own: list[bool], others: list[bool]) -> None:
    """Move each run of `own` to its lowest place, or to the lowest that meets one of `others`.

    So does git (xdl_change_compact of xdiff), whose merges ours are to equal. own, others: of each element whether it is unmatched.
    """
    meets = [False]  # whether others has a run behind so many matched elements
    for unmatched in others:
        meets[-1:] = [True] if unmatched else [meets[-1], False]
    start = end = above = 0  # of a run; the matched elements above it

    def move(by: int) -> bool:
        """Move the run by one element, where that says the same; return whether it did."""
        nonlocal start, end, above
        first = start + min(by, 0)
        last = end + min(by, 0)
        if first < 0 or last == len(values) or values[first] != values[last]:
            return False
        own[first], own[last] = by < 0, by > 0
        start, end, above = start + by, end + by, above + by
        while start and own[start - 1]:
            start -= 1
        while end < len(own) and own[end]:
            end += 1
        return True

    while True:
        while end < len(own) and own[end]:
            end += 1
        size = -1 if end > start else 0
        while size != end - start:
            size = end - start
            while move(-1):
                pass
            highest, met = end, meets[above]
            while move(1):
                met = met or meets[above]
            while size == end - start and met and end != highest and not meets[above] and move(-1):
                pass
        if end == len(own):
            return
        start = end = end + 1
        above += 1


Rows = tuple[int, int]  # the first, and that behind the last
Reach = tuple[Rows, Rows]  # of a place in conflict: its lines in base and in theirs


class Overlap(NamedTuple):
    """The lines of a place that both sides changed, each in its way."""

    base: Rows
    ours: Rows
    theirs: Rows


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
