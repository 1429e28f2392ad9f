"""Rows of several sources, in the order of a run."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.errors import UserError
from ..permutation import permute

# Rows of a run in which each source has exactly its share, in an order of their own: shares are
# rounded to a ten-thousandth.
BLOCK = 10_000


class Mixture(Sequence[Arrays]):
    """The rows of all sources end to end, and the order in which a run takes them.

    weights: of the sources, where they have any; an epoch of a source is then its own, and a source may
    be done several times over while another is not. Without them an epoch has each row of each once.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[Any]],
        weights: Sequence[float | None] = (),
        make: Callable[[Any, int], Any] = lambda row, index: row,
    ) -> None:
        self.parts, self._weights, self._make = parts, weights, make
        self._ends = np.cumsum([len(part) for part in parts])
        shares = [weight for weight in weights if weight is not None]
        self._ends_in_block = block_ends(shares)
        # Rows of a block, by source; none without weights.
        self._quotas = np.diff(self._ends_in_block, prepend=0)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        """Return a row; a list of rows of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        number = int(np.searchsorted(self._ends, index, side="right"))
        row = self.parts[number][index - (self._ends[number - 1] if number else 0)]
        return self._make(row, index)

    def map(self, make: Callable[[Any, int], Any]) -> "Mixture":
        """Return what `make` makes of each row, when it is asked for, and of its index."""
        before = self._make
        return Mixture(self.parts, self._weights, lambda row, i: make(before(row, i), i))

    def order(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return the indices of the rows at the places `start` to `stop - 1` of a run: int64."""
        return self._places(seed, start, stop)[0]

    def passes(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return how often these rows were taken before: the epoch of each, or of its source."""
        return self._places(seed, start, stop)[1]

    def _places(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return the indices and the passes of the rows at these places: (2, stop - start)."""
        places = np.arange(start, stop)
        if not len(self._quotas):
            return _epochs(seed, 0, len(self), places)
        blocks, slots = np.divmod(places, BLOCK)
        rows = np.empty((2, len(places)), np.int64)
        for block in np.unique(blocks):
            now = blocks == block
            rows[:, now] = self._in_block(seed, int(block), slots[now])
        return rows

    def _in_block(self, seed: int, block: int, slots: np.ndarray) -> np.ndarray:
        """Return the indices of the rows in some slots of a block, and their passes."""
        # Which source a slot is of, and how many of its rows come before it in the run.
        numbers_all = np.searchsorted(self._ends_in_block, _shuffled_block(seed, block), "right")
        places = np.empty(BLOCK, np.int64)
        for number, quota in enumerate(self._quotas):
            places[numbers_all == number] = block * quota + np.arange(quota)
        numbers, places = numbers_all[slots], places[slots]
        rows = np.empty((2, len(slots)), np.int64)
        for number in np.unique(numbers):
            now = numbers == number
            size = len(self.parts[number])
            rows[:, now] = _epochs(seed, int(number) + 2, size, places[now])
            rows[0, now] += self._ends[number] - size
        return rows


def source_at(ends: np.ndarray, seed: int, place: int) -> int:
    """Return the number of the source that the row at a place of a run is of. ends: as of `block_ends`."""
    block, slot = divmod(place, BLOCK)
    return int(np.searchsorted(ends, _shuffled_block(seed, block)[slot], "right"))


def block_ends(weights: Sequence[float]) -> np.ndarray:
    """Return where the rows of each source end in a block, were it not shuffled. Raises UserError.

    A source has its share of a block, rounded by the largest remainders.
    """
    exact = BLOCK * np.array(weights, np.float64) / sum(weights)
    quotas = np.floor(exact).astype(np.int64)
    rest = np.argsort(quotas - exact, kind="stable")[: BLOCK - quotas.sum()]
    quotas[rest] += 1
    if not quotas.all():
        least = sum(weights) / BLOCK
        what = f"a weight of {min(weights):g} is too small beside the others"
        raise UserError(f"--data: {what}: {least:g} at least")
    return np.cumsum(quotas)


@lru_cache(maxsize=2)
def _shuffled_block(seed: int, block: int) -> np.ndarray:
    return permute(np.arange(BLOCK), BLOCK, seed, block, 1)


def _epochs(seed: int, stream: int, size: int, places: np.ndarray) -> np.ndarray:
    """Return which of `size` rows stand at `places` of epochs laid end to end, and the epochs. Raises UserError where there are none."""
    if size < 1:
        raise UserError("no training examples: see what examples() in pipeline.py returns")
    epochs, offsets = np.divmod(places, size)
    indices = np.empty(len(places), np.int64)
    for epoch in np.unique(epochs):
        now = epochs == epoch
        indices[now] = permute(offsets[now], size, seed, int(epoch), stream)
    return np.stack([indices, epochs])
