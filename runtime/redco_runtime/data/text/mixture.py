"""Rows of several sources, in the order of a run."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.errors import UserError, feature
from ..permutation import permute


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
        self._in_shares = None
        if shares:
            own = feature("mixtures", "data.text.weighted", "--data")
            self._in_shares = own.Shares(shares, [*map(len, parts)])

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
        if self._in_shares:
            rows: np.ndarray = self._in_shares.rows_at(seed, places)
            return rows
        return in_epochs(seed, 0, len(self), places)


def in_epochs(seed: int, stream: int, size: int, places: np.ndarray) -> np.ndarray:
    """Return which of `size` rows stand at `places` of epochs laid end to end, and the epochs. Raises UserError where there are none."""
    if size < 1:
        raise UserError("no training examples: see what examples() in pipeline.py returns")
    epochs, offsets = np.divmod(places, size)
    indices = np.empty(len(places), np.int64)
    for epoch in np.unique(epochs):
        now = epochs == epoch
        indices[now] = permute(offsets[now], size, seed, int(epoch), stream)
    return np.stack([indices, epochs])
