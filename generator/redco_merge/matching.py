"""The longest common subsequence of two sequences, its gaps laid as git lays them.

Its lengths for all beginnings of both, a row at a time in the bits of a number (Hyyrö, 2004), on what both sides
have; where that would take long, between the elements that each side has once.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from redco_merge.limit import check_time, remember

Block = tuple[int, int, int]  # start in the first sequence, start in the second, size
# Beginnings of one side times those of the other, of which the lengths are kept: 25 MB, and a tenth of a second.
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
        return _common_in_parts(a, b)
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


def _common_in_parts(a: list[Hashable], b: list[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of what each side has once, and of what is between two of them, if it is not too much."""
    pairs: list[tuple[int, int]] = []
    i = j = 0
    for x, y in [*_common_once(a, b), (len(a), len(b))]:
        if (x - i) * (y - j) <= _MOST_BITS:
            pairs += [(i + p, j + q) for p, q in _common(a[i:x], b[j:y])]
        pairs.append((x, y))
        i, j = x + 1, y + 1
    return pairs[:-1]


def _common_once(a: list[Hashable], b: list[Hashable]) -> list[tuple[int, int]]:
    """Return pairs in rising order of the elements that each side has once, as many as can be."""
    once_a, once_b = ({x for x, n in Counter(side).items() if n == 1} for side in (a, b))
    at = {x: j for j, x in enumerate(b) if x in once_b}
    ends: list[int] = []
    chains: list[list[int]] = []  # of the shortest end: [i, j, index of the pair before]
    pairs: list[tuple[int, int, int]] = []
    for i, x in enumerate(a):
        if x in once_a and x in at:
            place = bisect_left(ends, at[x])
            pairs.append((i, at[x], chains[place - 1][0] if place else -1))
            ends[place : place + 1] = [at[x]]
            chains[place : place + 1] = [[len(pairs) - 1]]
    chain: list[tuple[int, int]] = []
    index = chains[-1][0] if chains else -1
    while index >= 0:
        i, j, index = pairs[index]
        chain.append((i, j))
    return chain[::-1]


class _Group:
    """A run of unmatched elements, maybe empty, that ends before a matched one or at the end."""

    def __init__(self, unmatched: list[bool]):
        self.unmatched, self.start, self.end = unmatched, 0, 0
        self._extend()

    def _extend(self) -> None:
        while self.end < len(self.unmatched) and self.unmatched[self.end]:
            self.end += 1

    def next(self) -> bool:
        """Move to the next one. Returns whether there is one."""
        if self.end == len(self.unmatched):
            return False
        self.start = self.end = self.end + 1
        self._extend()
        return True

    def previous(self) -> None:
        """Move to the one above."""
        self.start = self.end = self.start - 1
        while self.start and self.unmatched[self.start - 1]:
            self.start -= 1

    def up(self, values: Sequence[Hashable]) -> bool:
        """Move by one element towards the top, where that says the same."""
        if not self.start or values[self.start - 1] != values[self.end - 1]:
            return False
        self.start, self.end = self.start - 1, self.end - 1
        self.unmatched[self.start], self.unmatched[self.end] = True, False
        while self.start and self.unmatched[self.start - 1]:
            self.start -= 1
        return True

    def down(self, values: Sequence[Hashable]) -> bool:
        """Move by one element towards the end, where that says the same."""
        if self.end == len(values) or values[self.start] != values[self.end]:
            return False
        self.unmatched[self.start], self.unmatched[self.end] = False, True
        self.start, self.end = self.start + 1, self.end + 1
        self._extend()
        return True


def _slide(values: Sequence[Hashable], own: list[bool], others: list[bool]) -> None:
    """Move each run of `own` to its lowest place, or to the lowest that meets one of `others`.

    So does git (xdl_change_compact of xdiff), whose merges ours are to equal.
    """
    group, other = _Group(own), _Group(others)
    while True:
        if group.end > group.start:
            _slide_one(values, group, other)
        if not group.next():
            return
        other.next()


def _slide_one(values: Sequence[Hashable], group: _Group, other: _Group) -> None:
    size = -1
    while size != group.end - group.start:
        size, meets = group.end - group.start, False
        while group.up(values):
            other.previous()
        highest = group.end
        meets = other.end > other.start
        while group.down(values):
            other.next()
            meets = meets or other.end > other.start
    while meets and group.end != highest and other.end == other.start and group.up(values):
        other.previous()
