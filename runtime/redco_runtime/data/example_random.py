"""Examples of which something is drawn: masks, noise, crops, flips. All of it follows from one function."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.examples import Example


def example_random(seed: int, index: int, number: int = 0) -> np.random.Generator:
    """Return where all that is drawn for an example in its pass `number` comes from, the same for ever.

    NumPy keeps the raw words of Philox, `.bit_generator.random_raw(n)`; the methods of a Generator may change by release.
    """
    key = np.array([seed % 2**64, index], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))


class Draws(Sequence[Example]):
    """What make(example, random) gives of each example: anew in each pass of training, and as in the first elsewhere.

    examples: a sequence, or a Mixture, in whose order they are then.
    """

    def __init__(
        self,
        examples: Sequence[Any],
        make: Callable[[Any, np.random.Generator], Example],
        seed: int,
    ) -> None:
        self.examples, self.make, self.seed = examples, make, seed

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        """Return an example; a list of them of a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.take(index, 0)

    def passes(self, seed: int, start: int, stop: int) -> np.ndarray:
        """Return how often the examples at the places `start` to `stop - 1` of a run were taken before: int64."""
        if hasattr(self.examples, "passes"):  # its own, as of sources with weights
            return self.examples.passes(seed, start, stop)
        return np.arange(start, stop) // len(self)

    def take(self, index: int, number: int) -> Example:
        """Return an example as in its pass `number`, from 0."""
        return self.make(self.examples[index], example_random(self.seed, index, number))
