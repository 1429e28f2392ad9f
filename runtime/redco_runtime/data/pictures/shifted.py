"""Examples of pictures with the numbers of their classes; those that are learned from are moved a little."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .framing import Framing
from .reading import fit_picture, read_picture


@dataclass(frozen=True)
class Labelled(Sequence[Any]):
    """Examples {"pixels": uint8 (size, size, channels), "label": int32 ()}; files are read when asked for.

    With a framing they have its scale too.

    pictures: files, or arrays, uint8 (height, width), which are resized.
    shift: pixels that a picture is moved at most, up or down and to either side. Each is (2 shift + 1)^2
        examples, one for each way to move it, first all pictures as they are: so what a step learns from
        follows from the order of examples, in a run that goes on too.
    """

    pictures: Sequence[Path | np.ndarray]
    labels: Sequence[int]
    size: int
    channels: int
    shift: int = 0
    framing: Framing | None = None

    def __len__(self) -> int:
        return len(self.labels) * (2 * self.shift + 1) ** 2

    def __getitem__(self, index: Any) -> Any:
        way, place = divmod(range(len(self))[index], len(self.labels))
        picture, ways = self.pictures[place], 2 * self.shift + 1
        read = read_picture if isinstance(picture, Path) else fit_picture
        pixels = read(picture, self.size, self.channels, self.framing)
        # What is moved in repeats the edge; NumPy has a window that begins at (shift, shift) unmoved.
        top, left = ((step + self.shift) % ways for step in divmod(way, ways))
        padded = np.pad(pixels, [(self.shift, self.shift)] * 2 + [(0, 0)], mode="edge")
        moved = padded[top : top + self.size, left : left + self.size]
        scale = self.framing.scale if self.framing else {}
        return {"pixels": moved, "label": np.int32(self.labels[place]), **scale}
