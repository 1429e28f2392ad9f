"""Rows of several sources, each of which has its share of a run: `--data a.jsonl=0.7 b.jsonl=0.3`."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...base.messages import UserError
from ..permutation import permute
from .examples import in_epochs

# Rows of a run in which each source has exactly its share, in an order of their own: shares are
# rounded to a ten-thousandth.
BLOCK = 10_000


class Shares:
    """Which rows stand where in a run. weights, sizes: of the sources, whose rows are numbered end to end."""

    def __init__(self, weights: Sequence[float], sizes: Sequence[int]) -> None:
        self._ends_in_block = block_ends(weights)
        self._quotas = np.diff(self._ends_in_block, prepend=0)  # rows of a block, by source
        self._sizes, self._starts = sizes, np.cumsum([0, *sizes])

    def rows_at(self, seed: int, places: np.ndarray) -> np.ndarray:
        """Return the indices of the rows at these places of a run, and how often they came before: (2, N)."""
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
            rows[:, now] = in_epochs(seed, int(number) + 2, self._sizes[number], places[now])
            rows[0, now] += self._starts[number]
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
