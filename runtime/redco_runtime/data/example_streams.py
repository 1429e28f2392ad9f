"""Examples that come one after the other; of others how many are held out, and those that an evaluation reads."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.messages import UserError


def is_stream(examples: object) -> bool:
    """Return whether examples have no length, or cannot be had by their number. Raises UserError."""
    if hasattr(examples, "__len__") and hasattr(examples, "__getitem__"):
        return False
    if not isinstance(examples, Iterable):
        kind = type(examples).__name__
        todo = "give what has __len__ and __getitem__, or __iter__"
        raise UserError(f"examples() in pipeline.py: it gives {kind} to train on: {todo}")
    return True


def check_held_out(examples: object) -> None:
    """Raise UserError where held-out examples have no length: an evaluation counts each once."""
    if is_stream(examples):
        raise UserError(
            f"examples() in pipeline.py: it gives {type(examples).__name__} of held-out examples: give a list, "
            "or what has __len__ and __getitem__"
        )


def check_share(share: float) -> None:
    """Raise UserError for what is no share of the examples that can be held out."""
    if not 0 <= share < 1:
        raise UserError(f"--held-out: {share} is no share: give one from 0 to below 1")


def count_held_out(size: int, share: float) -> int:
    """Return how many of `size` examples are held out: one at least, and never all. Raises UserError."""
    check_share(share)
    return min(max(1, round(size * share)), size - 1)


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
