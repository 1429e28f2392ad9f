"""Three-way merge of sequences, and of text files line by line."""

import codecs
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from redco_merge.matching import Block, common_ends, shared_stretches
from redco_merge.result import (
    WHOLE,
    Conflict,
    MergeResult,
    keep_whole,
    readable_text,
    still_in_conflict,
)
from redco_merge.verify_text import text_faults

T = TypeVar("T")
Key = Callable[[T], Hashable]
Region = tuple[list[T], list[T], list[T]]  # base, ours, theirs
_Edit = tuple[int, int, list[T]]  # start and end in base, and what replaces base[start:end]


def diff3(
    base: Sequence[T],
    ours: Sequence[T],
    theirs: Sequence[T],
    key: Key[T],
    resolve: Callable[[Region[T]], list[T] | None] = lambda region: None,
) -> list[T] | None:
    """Return `base` with the changes of both sides, or None where they overlap.

    key: what makes two elements equal; of equal elements, ours is used.
    resolve: merges a region where they overlap, or returns None.
    """
    merged: list[T] = []
    for region in _cut_regions(base, ours, theirs, key):
        piece = merge_region(region, key)
        piece = resolve(region) if piece is None else piece
        if piece is None:
            return None
        merged += piece
    return merged


def merge_region(region: Region[T], key: Key[T]) -> list[T] | None:
    """Return what a region becomes; None if both sides changed it, each in its way."""
    merged = _changed_side(region, key)
    if merged is None:
        merged = _merge_edits(region, key)
    return _merge_between_common_ends(region, key) if merged is None else merged


def _changed_side(region: Region[T], key: Key[T]) -> list[T] | None:
    """Return the side that changed; None if both did and differ."""
    base, ours, theirs = ([key(x) for x in side] for side in region)
    if theirs in (base, ours):
        return region[1]
    return region[2] if ours == base else None


def _merge_edits(region: Region[T], key: Key[T]) -> list[T] | None:
    """Apply both sides' edits where they are of different elements of base, be these neighbours.

    Returns None where both insert at one place, or something that both insert, or beside what the
    other only deletes.
    """
    base, ours, theirs = region
    mine, others = _edits(base, ours, key), _edits(base, theirs, key)
    done = [(start, end, [key(x) for x in new]) for start, end, new in mine]
    others = [x for x in others if (x[0], x[1], [key(y) for y in x[2]]) not in done]
    if any(_overlap(a, b) for a in mine for b in others):
        return None
    if {key(x) for _, _, new in mine for x in new} & {key(x) for _, _, new in others for x in new}:
        return None
    blocks = matching_blocks(base, ours, key)
    same = {b + i: ours[o + i] for b, o, size in blocks for i in range(size)}
    merged: list[T] = []
    at = 0
    for start, end, new in sorted(mine + others, key=lambda edit: edit[:2]):
        merged += [same[i] for i in range(at, start)] + new
        at = end
    return merged + [same[i] for i in range(at, len(base))]


def _edits(base: list[T], side: list[T], key: Key[T]) -> list[_Edit[T]]:
    """Return the edits from `base` to `side`; elements replaced one for one are an edit each."""
    edits: list[_Edit[T]] = []
    i = k = 0
    for j, n, size in matching_blocks(base, side, key):
        if j - i == n - k:
            edits += [(i + x, i + x + 1, side[k + x : k + x + 1]) for x in range(j - i)]
        elif (i, k) != (j, n):
            edits.append((i, j, side[k:n]))
        i, k = j + size, n + size
    return edits


def _overlap(a: _Edit[T], b: _Edit[T]) -> bool:
    """Return whether two edits are of the same elements, or too close to be told apart."""
    (start, end, new), (other_start, other_end, other) = a, b
    if start == end or other_start == other_end:
        inside = other_start < start < other_end or start < other_start < end
        same = (start, end) == (other_start, other_end)
    else:
        inside, same = max(start, other_start) < min(end, other_end), False
    beside = start == other_end or other_start == end
    return inside or same or (beside and not (new and other))


def _merge_between_common_ends(region: Region[T], key: Key[T]) -> list[T] | None:
    """Merge what is between the elements that both sides begin and end with; None if it differs."""
    base, ours, theirs = region
    head, tail = common_ends([key(x) for x in ours], [key(x) for x in theirs])
    if not head and not tail:
        return None
    mine, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    middle = _changed_side((base, mine, other), key)
    if middle is None and mine and other:
        return None
    middle = middle if middle is not None else mine or other
    return [*ours[:head], *middle, *ours[len(ours) - tail :]]


def _cut_regions(
    base: Sequence[T], ours: Sequence[T], theirs: Sequence[T], key: Key[T]
) -> Iterator[Region[T]]:
    """Yield the three sides cut into regions: one that differs, one that is equal, and so on."""
    b = o = t = 0
    for start, in_ours, in_theirs, size in _common_stretches(base, ours, theirs, key):
        yield list(base[b:start]), list(ours[o:in_ours]), list(theirs[t:in_theirs])
        b, o, t = start + size, in_ours + size, in_theirs + size
        yield list(base[start:b]), list(ours[in_ours:o]), list(theirs[in_theirs:t])


def _common_stretches(
    base: Sequence[T], ours: Sequence[T], theirs: Sequence[T], key: Key[T]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start in base, in ours, in theirs, size) of what is in all three; then of the ends."""
    left, right = (deque(matching_blocks(base, side, key)) for side in (ours, theirs))
    while left and right:
        (a, in_ours, a_size), (b, in_theirs, b_size) = left[0], right[0]
        start, end = max(a, b), min(a + a_size, b + b_size)
        if start < end:
            yield start, in_ours + start - a, in_theirs + start - b, end - start
        (left if a + a_size <= b + b_size else right).popleft()
    yield len(base), len(ours), len(theirs), 0


def matching_blocks(base: Sequence[T], side: Sequence[T], key: Key[T]) -> tuple[Block, ...]:
    """Return each stretch that the two share, in order, and their ends."""
    return shared_stretches([key(x) for x in base], [key(x) for x in side])


def merge_text(
    base: bytes, ours: bytes, theirs: bytes, prefer_theirs: Collection[str] = ()
) -> MergeResult:
    """Merge into `ours` the changes from `base` to `theirs`, line by line.

    Where both changed the same lines, ours stay and theirs are a conflict; theirs win where
    `prefer_theirs` holds the conflict's symbol ("line 12" or WHOLE).
    Never raises. Of a file with a zero byte, one side is taken whole.
    """
    if theirs in (base, ours):
        return MergeResult(ours)
    if ours == base:
        return MergeResult(theirs)
    merged = _merge_checked(base, ours, theirs, set())
    preferred = {x.symbol for x in merged.conflicts} & set(prefer_theirs)
    if WHOLE in preferred:
        return MergeResult(theirs)
    if not preferred:
        return merged
    result = _merge_checked(base, ours, theirs, preferred)
    if why := [x.reason for x in result.conflicts if x.symbol == WHOLE]:
        left = [
            still_in_conflict(x, why[0]) if x.symbol in preferred else x for x in merged.conflicts
        ]
        return replace(merged, conflicts=left)
    return result


def _merge_checked(base: bytes, ours: bytes, theirs: bytes, preferred: set[str]) -> MergeResult:
    """Merge, and keep ours whole if the result does not stand an independent check."""
    if b"\0" in base + ours + theirs:
        return keep_whole(ours, theirs, "you and the template changed a binary file")
    mine, merged = merge_lines(base, ours, theirs, preferred)
    if wrong := text_faults(base, mine, theirs, merged):
        return keep_whole(ours, theirs, f"the merge failed its check: {wrong[0]}")
    return merged


def merge_lines(
    base: bytes, ours: bytes, theirs: bytes, preferred: set[str]
) -> tuple[bytes, MergeResult]:
    """Return (ours with the lines of theirs where they are preferred, the merge)."""
    bom = codecs.BOM_UTF8 if ours.startswith(codecs.BOM_UTF8) else b""
    b, o, t = (x.removeprefix(codecs.BOM_UTF8).splitlines(True) for x in (base, ours, theirs))
    mine: list[bytes] = []
    lines: list[bytes] = []
    conflicts, line = [], 1
    for region in _cut_regions(b, o, t, key=_without_ending):
        piece, ours_there, name = merge_region(region, _without_ending), region[1], f"line {line}"
        if piece is None and name in preferred:
            piece = ours_there = region[2]
        elif piece is None:
            text = readable_text(b"".join(region[2]))
            conflicts.append(Conflict(name, text, "you and the template changed it"))
            piece = ours_there
        lines += piece
        mine += ours_there
        line += len(region[1])
    content = bom + _with_endings(lines, ours)
    return bom + _with_endings(mine, ours), MergeResult(content, conflicts)


def _with_endings(lines: list[bytes], ours: bytes) -> bytes:
    """Join lines; those not of ours get our line ending, the last one an ending if ours has."""
    newline = b"\r\n" if ours.count(b"\r\n") * 2 > ours.count(b"\n") else b"\n"
    own = set(ours.splitlines(True))
    whole = [
        x if x in own and x != _without_ending(x) else _without_ending(x) + newline for x in lines
    ]
    if whole and ours and not ours.endswith((b"\n", b"\r")):
        whole[-1] = _without_ending(whole[-1])
    return b"".join(whole)


def _without_ending(line: bytes) -> bytes:
    return line.rstrip(b"\r\n")
