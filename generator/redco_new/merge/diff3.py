"""Three-way merge of sequences."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

T = TypeVar("T")
Key = Callable[[T], Hashable]
Region = tuple[list[T], list[T], list[T]]  # base, ours, theirs


def diff3(
    base: Sequence[T],
    ours: Sequence[T],
    theirs: Sequence[T],
    key: Key,
    settle: Callable[[Region], "list[T] | None"] = lambda region: None,
) -> list[T] | None:
    """`base` with the changes of both sides, or None where they overlap.

    key: what makes two elements equal; of equal elements, ours is taken.
    settle: asked about each region where they overlap.
    """
    merged: list[T] = []
    for region in regions(base, ours, theirs, key):
        piece = merge_region(region, key)
        piece = settle(region) if piece is None else piece
        if piece is None:
            return None
        merged += piece
    return merged


def merge_region(region: Region, key: Key) -> list[T] | None:
    """What a region becomes; None if both sides changed it, each in its way."""
    for rule in (take_changed, merge_edits, merge_common_ends):
        merged = rule(region, key)
        if merged is not None:
            return merged
    return None


def take_changed(region: Region, key: Key) -> list[T] | None:
    """The side that changed; None if both did and differ."""
    base, ours, theirs = ([key(x) for x in side] for side in region)
    if theirs in (base, ours):
        return region[1]
    return region[2] if ours == base else None


def merge_edits(region: Region, key: Key) -> list[T] | None:
    """Both sides' edits, where they are of different elements of base, be these neighbours.

    Not where both insert at one place, or something that both insert, or beside what the other
    only deletes.
    """
    base, ours, theirs = region
    mine, others = edits(base, ours, key), edits(base, theirs, key)
    done = [(start, end, [key(x) for x in new]) for start, end, new in mine]
    others = [x for x in others if (x[0], x[1], [key(y) for y in x[2]]) not in done]
    if any(touch(a, b) for a in mine for b in others):
        return None
    if {key(x) for _, _, new in mine for x in new} & {key(x) for _, _, new in others for x in new}:
        return None
    same = {b + i: ours[o + i] for b, o, size in blocks(base, ours, key) for i in range(size)}
    merged, at = [], 0
    for start, end, new in sorted(mine + others, key=lambda edit: edit[:2]):
        merged += [same[i] for i in range(at, start)] + new
        at = end
    return merged + [same[i] for i in range(at, len(base))]


def edits(base: list[T], side: list[T], key: Key) -> list[tuple[int, int, list[T]]]:
    """(start, end, new): what `side` has in place of base[start:end]."""
    matcher = SequenceMatcher(None, [key(x) for x in base], [key(x) for x in side], autojunk=False)
    found = []
    for tag, i, j, k, n in matcher.get_opcodes():
        if j - i == n - k and tag != "equal":  # one for one
            found += [(i + x, i + x + 1, side[k + x : k + x + 1]) for x in range(j - i)]
        elif tag != "equal":
            found.append((i, j, side[k:n]))
    return found


def touch(a: tuple[int, int, list], b: tuple[int, int, list]) -> bool:
    """Whether two edits are of the same elements, or too close to be told apart."""
    (start, end, new), (other_start, other_end, other) = a, b
    if start == end or other_start == other_end:
        inside = other_start < start < other_end or start < other_start < end
        same = (start, end) == (other_start, other_end)
    else:
        inside, same = max(start, other_start) < min(end, other_end), False
    beside = start == other_end or other_start == end
    return inside or same or (beside and not (new and other))


def merge_common_ends(region: Region, key: Key) -> list[T] | None:
    """What both sides begin or end with is taken once; the rest is merged, if not all is common."""
    base, ours, theirs = region
    head, tail = common_ends([key(x) for x in ours], [key(x) for x in theirs])
    if not head and not tail:
        return None
    mine, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    middle = take_changed((base, mine, other), key)
    if middle is None and mine and other:
        return None
    middle = middle if middle is not None else mine or other
    return [*ours[:head], *middle, *ours[len(ours) - tail :]]


def common_ends(a: list, b: list) -> tuple[int, int]:
    """How many elements the two begin with, and then end with, in common."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    rest = shorter - head
    return head, next((i for i in range(rest) if a[-1 - i] != b[-1 - i]), rest)


def regions(
    base: Sequence[T], ours: Sequence[T], theirs: Sequence[T], key: Key
) -> Iterator[Region]:
    """The three sides cut where all of them are equal: such a region, one that differs, and so on."""
    b = o = t = 0
    for start, in_ours, in_theirs, size in stable(base, ours, theirs, key):
        yield list(base[b:start]), list(ours[o:in_ours]), list(theirs[t:in_theirs])
        b, o, t = start + size, in_ours + size, in_theirs + size
        yield list(base[start:b]), list(ours[in_ours:o]), list(theirs[in_theirs:t])


def stable(
    base: Sequence[T], ours: Sequence[T], theirs: Sequence[T], key: Key
) -> Iterator[tuple[int, int, int, int]]:
    """(start in base, in ours, in theirs, size) of each stretch that is in all three; then the ends."""
    left, right = blocks(base, ours, key), blocks(base, theirs, key)
    while left and right:
        (a, in_ours, a_size), (b, in_theirs, b_size) = left[0], right[0]
        start, end = max(a, b), min(a + a_size, b + b_size)
        if start < end:
            yield start, in_ours + start - a, in_theirs + start - b, end - start
        (left if a + a_size <= b + b_size else right).pop(0)
    yield len(base), len(ours), len(theirs), 0


def blocks(base: Sequence[T], side: Sequence[T], key: Key) -> list[tuple[int, int, int]]:
    """(start in base, start in side, size) of each stretch that the two share, in order."""
    keys = [key(x) for x in base], [key(x) for x in side]
    return [tuple(m) for m in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()]
