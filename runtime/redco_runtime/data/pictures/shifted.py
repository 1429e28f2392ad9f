"""Examples of pictures with the numbers of their classes; those that are learned from are moved a little."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.contracts import Example
from ..example_random import Draws
from .framing import Framing
from .reading import fit_picture, read_picture


@dataclass(frozen=True)
class Labelled(Sequence[Any]):
    """Examples {"pixels": uint8 (size, size, channels), "label": int32 ()}; files are read when asked for.

    With a framing they have its scale too.
    """

    pictures: Sequence[Path | np.ndarray]  # arrays are uint8 (height, width), and resized
    labels: Sequence[int]
    size: int
    channels: int
    framing: Framing | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        picture = self.pictures[index]
        read = read_picture if isinstance(picture, Path) else fit_picture
        pixels = read(picture, self.size, self.channels, self.framing)
        scale = self.framing.scale if self.framing else {}
        return {"pixels": pixels, "label": np.int32(self.labels[index]), **scale}


def shift_pictures(examples: Labelled, shift: int, seed: int) -> Draws:
    """Return the examples, moved by up to `shift` pixels up or down and to either side, anew in each pass."""

    def move(example: Example, random: np.random.Generator) -> Example:
        pixels = example["pixels"]
        # What is moved in repeats the edge; a window that begins at (shift, shift) is unmoved.
        top, left = (random.bit_generator.random_raw(2) % (2 * shift + 1)).tolist()
        padded = np.pad(pixels, [(shift, shift)] * 2 + [(0, 0)], mode="edge")
        moved = padded[top : top + pixels.shape[0], left : left + pixels.shape[1]]
        return {**example, "pixels": moved}

    return Draws(examples, move, seed)
