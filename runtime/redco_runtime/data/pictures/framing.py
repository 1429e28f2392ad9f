"""How a picture becomes the numbers of a model: resized, cut, and scaled by a mean and a deviation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.messages import UserError
from .opening import MODES

FORMER = "bicubic"  # of projects whose config.py does not say it


@dataclass(frozen=True)
class Framing:
    """Sizes are in pixels, and a mean and a deviation are of colors from 0 to 1: a model sees (x - mean) / std."""

    size: int  # the height and the width that a model takes
    channels: int = 3  # colors, or 1
    # (), each side to `size`; (n,), the shorter side to n; (height, width). Then the middle is cut out.
    resize: tuple[int, ...] = ()
    resample: str = FORMER  # how, a name of pillow
    mean: tuple[float, ...] = (0.5,)  # of each channel, or one of all
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        if self.channels not in MODES:
            raise UserError(f"--num-channels: {self.channels}: pictures have 3 colors, or 1")
        if len(self.resize) > 2 or any(side < self.size for side in self.resize):
            what = (
                f"{' '.join(map(str, self.resize))}, and the model takes {self.size} pixels a side"
            )
            raise UserError(
                f"--resize: {what}: give the shorter side, or height and width, not smaller"
            )
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, self.channels) or (name == "std" and min(values) <= 0):
                wanted = f"{self.channels} numbers, or one" + " above 0" * (name == "std")
                raise UserError(f"--{name}: {' '.join(map(str, values))}: give {wanted}")

    def pixels(self, image: Any) -> np.ndarray:
        """Return those of an image of pillow: uint8 (size, size, channels)."""
        from PIL import Image

        width, height = image.size
        if len(self.resize) == 1:
            short, long = sorted((width, height))
            other = int(self.resize[0] * long / short)
            sides = (self.resize[0], other) if width <= height else (other, self.resize[0])
        else:
            high, wide = self.resize or (self.size, self.size)
            sides = (wide, high)
        image = image.convert(MODES[self.channels])
        if sides != image.size:
            image = image.resize(sides, Image.Resampling[self.resample.upper()])
        left, top = ((side - self.size) // 2 for side in sides)
        cut = image.crop((left, top, left + self.size, top + self.size))
        return np.asarray(cut).reshape(self.size, self.size, self.channels)

    @property
    def scale(self) -> dict[str, np.ndarray]:
        """What an example has beside its pixels: the "mean" and the "std" of each channel, float32 (channels,)."""
        values = {"mean": self.mean, "std": self.std}
        return {k: np.resize(np.array(v, np.float32), self.channels) for k, v in values.items()}


def framing_of(data: Any, model: Any) -> Framing | None:
    """Return what the sections of a configuration say; None of a project that does not say it. Raises UserError."""
    if not hasattr(data, "resample"):
        return None
    sizes = model.image_size, model.num_channels
    return Framing(*sizes, data.resize, data.resample, data.mean, data.std)
