"""Some of many examples: what an evaluation reads, where all would take too long."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Spread(Sequence[Any]):
    """At most so many of the examples, the same each time, as far from each other as they can be.

    whole: all examples. most: how many of them; 0: all.
    """

    def __init__(self, whole: Sequence[Any], most: int) -> None:
        size = len(whole)
        count = min(most or size, size)
        self.whole = whole
        self.numbers = np.arange(count) * size // max(count, 1)  # of these, in `whole`

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        """Return an example; a list of them of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.whole[int(self.numbers[index])]
