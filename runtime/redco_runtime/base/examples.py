"""What examples and batches are on the host, without JAX."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

Example = Any  # an element of what examples() gives: only the pipeline looks into it
Arrays = dict[str, np.ndarray]  # a batch on the host; the first dim of all is B


@runtime_checkable
class Redrawn(Protocol):
    """Examples of which something is drawn anew in each pass of training: Draws of data/example_random.py."""

    examples: Any

    def passes(self, seed: int, start: int, stop: int, /) -> np.ndarray: ...
    def take(self, index: int, number: int, /) -> Example: ...
