"""What examples and batches are on the host, without JAX."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

Example = Any  # an element of what examples() gives: only the pipeline looks into it
Arrays = dict[str, np.ndarray]  # a batch on the host; the first dim of all is B


@runtime_checkable
class Shuffled(Protocol):
    """Examples without a length, whose order is their own in each epoch."""

    def begin_epoch(self, seed: int, epoch: int, /) -> None:
        """Make the next iterator that of an epoch."""
