"""Documents to rows of S tokens, by their lengths: cut, held out or not, packed or not."""

from typing import NamedTuple

import numpy as np

from ...nn.packed_rows import most_texts
from ..permutation import permute
from .documents import Shape

# Pieces of a document that are held out together. A document shorter than that is so as a whole, and
# a book in stretches that are long beside what is cut at their ends.
STRETCH = 16


class Pieces(NamedTuple):
    """Stretches of tokens of one document each, at most S: their first token, how many, their stretch."""

    starts: np.ndarray
    lengths: np.ndarray
    stretches: np.ndarray


class Layout(NamedTuple):
    """Rows of pieces; those that are held out come after those to train on."""

    pieces: np.ndarray  # (first token, length) of each, by rows
    rows: np.ndarray  # where each row begins in these, and the end
    train: int  # how many rows are to train on

    @property
    def held_out(self) -> int:
        """How many rows are held out."""
        return len(self.rows) - 1 - self.train


def lay_out(documents: np.ndarray, shape: Shape, shard: int) -> Layout:
    """Return the rows of documents that lie end to end, which have so many tokens each. shard: as of `hold_out`."""
    size = shape.sequence_length
    pieces = cut(documents, size)
    chosen = hold_out(pieces, shape.held_out, shard)

    def fill(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (`some` of the pieces, in the order of their rows, where each row ends in it)."""
        lengths = pieces.lengths[some]
        order, ends = best_fit(lengths, size) if shape.packing == "on" else one_a_row(lengths)
        return some[order], ends

    order, ends = fill(np.flatnonzero(~chosen))
    held_order, held_ends = fill(np.flatnonzero(chosen))
    rows = np.concatenate([np.zeros(1, np.int64), ends, held_ends + len(order)])
    order = np.concatenate([order, held_order])
    return Layout(np.stack([pieces.starts[order], pieces.lengths[order]], axis=1), rows, len(ends))


def cut(documents: np.ndarray, size: int) -> Pieces:
    """Return the pieces of documents that lie end to end: all are `size` tokens but for a document's last.

    documents: how many tokens each has.
    """
    counts = -(-documents // size)
    first = np.repeat(np.cumsum(documents) - documents, counts)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.minimum(np.repeat(documents, counts) - number * size, size)
    # Where there is little, pieces by themselves: some can be held out of one short text.
    stretch = STRETCH if counts.sum() >= 64 * STRETCH else 1
    begins = number % stretch == 0
    return Pieces(first + number * size, lengths, np.cumsum(begins) - 1)


def hold_out(pieces: Pieces, share: float, shard: int) -> np.ndarray:
    """Return which pieces are held out: about `share` of the stretches, one at least of two or more.

    shard: its number, so that places are others in each.
    """
    count = int(pieces.stretches[-1]) + 1 if len(pieces.stretches) else 0
    chosen = max(1, round(share * count)) if share and count > 1 else 0
    places = permute(np.arange(count), count, shard, 0) if count else np.zeros(0, np.int64)
    return (places < chosen)[pieces.stretches]


def best_fit(lengths: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (the pieces in the order of their rows, where each row ends in it): rows of up to `size` tokens.

    The longest first, each into the row that it leaves the least room in: best-fit decreasing, as in
    Ding et al. 2024, "Fewer truncations improve language modeling". A row has `most_texts` at most.
    """
    most = most_texts(size)
    order = np.argsort(-lengths, kind="stable")
    rows = np.empty(len(lengths), np.int64)  # of each piece, in that order
    count = int((lengths == size).sum())
    rows[:count] = np.arange(count)
    pieces = [1] * count  # of each row
    open_rows: list[list[int]] = [[] for _ in range(size + 1)]  # by their room
    rooms = 0  # bit r: some row has room r
    for place, length in enumerate(lengths[order[count:]].tolist(), count):
        if fitting := rooms >> length:
            room = length + (fitting & -fitting).bit_length() - 1
            row = open_rows[room].pop()
            if not open_rows[room]:
                rooms ^= 1 << room
        else:
            room, row, count = size, count, count + 1
            pieces.append(0)
        rows[place] = row
        pieces[row] += 1
        if (left := room - length) and pieces[row] < most:
            open_rows[left].append(row)
            rooms |= 1 << left
    by_row = np.argsort(rows, kind="stable")
    return order[by_row], np.cumsum(np.bincount(rows, minlength=count))


def one_a_row(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same where each piece has a row of its own."""
    return np.arange(len(lengths)), np.arange(1, len(lengths) + 1)
