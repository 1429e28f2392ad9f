"""Pictures as a model takes them: a file's pixels, framed or resized."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError
from ..held_out import held_out_example
from .checking import MEND
from .framing import Framing
from .opening import open_picture, to_bytes

COLORS = 3  # red, green, blue


def read_picture(
    path: Path, size: int, channels: int = COLORS, framing: Framing | None = None
) -> np.ndarray:
    """Return the pixels of a file: uint8 (size, size, channels), 3 or 1. Raises UserError.

    An array, .npy, has them as they are, see `to_bytes`; a picture is framed, or else resized.
    """
    from PIL import UnidentifiedImageError  # late: few read files

    try:
        if path.suffix.lower() == ".npy":
            pixels = to_bytes(np.asarray(np.load(path)))
        else:
            image = open_picture(path, channels)
            pixels = (framing or Framing(size, channels)).pixels(image)
    except UnidentifiedImageError:
        raise UserError(f"{path}: no picture: give .npy, or what pillow reads") from None
    except Exception as error:  # each decoder has its own
        raise UserError(f"{path}: cannot be read: {error}: {MEND}") from None
    if pixels.shape != (size, size, channels):
        actual, wanted = f"{pixels.dtype} {pixels.shape}", f"uint8 {(size, size, channels)}"
        raise UserError(f"{path}: {actual}, and the model takes {wanted}, of 0 to 255")
    return pixels


def fit_picture(
    pixels_HW: np.ndarray, size: int, channels: int = COLORS, framing: Framing | None = None
) -> np.ndarray:
    """Return a gray picture, uint8 (H, W), as one of uint8 (size, size, channels)."""
    from PIL import Image

    return (framing or Framing(size, channels)).pixels(Image.fromarray(pixels_HW))


def prompted_picture(
    text: str,
    held_out: Sequence[Any],
    size: int,
    channels: int = COLORS,
    framing: Framing | None = None,
) -> dict[str, np.ndarray]:
    """Return the held-out example of a number, or {"pixels": ...} of the file at a path. Raises UserError.

    With a framing an example has its scale too.
    """
    if text.isdecimal():
        return dict(held_out_example(held_out, text))
    if not Path(text).is_file():
        raise UserError(f"--prompt: {text} is neither a file nor the number of a held-out picture")
    pixels = read_picture(Path(text), size, channels, framing)
    return {"pixels": pixels} | (framing.scale if framing else {})
