"""A picture of a file as transformers opens it: its first frame, upright, in 8 bits a color, whatever it is stored as."""

from pathlib import Path
from typing import Any

import numpy as np

# Ends of the names of pictures; .npy has an array.
FILES = (".npy", ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")
MODES = {1: "L", 3: "RGB"}  # of pillow, by channels
BITS_16 = 65535  # the largest number of 16 bits; 255 times 257


def open_picture(path: Path, channels: int) -> Any:
    """Return an image of pillow, of 3 colors or of grays.

    It is turned as EXIF says. Of 16 bits it has the share of 255, as of floats, see `to_bytes`; a palette its
    colors; CMYK those that pillow makes of it; and alpha is left out, as transformers does. Raises ValueError for
    numbers that are none of a picture, and what pillow raises for a file that is none, or torn.
    """
    from PIL import Image, ImageOps  # late: few read files

    with Image.open(path) as image:
        image.load()
        upright = ImageOps.exif_transpose(image)
    if upright.mode == "F" or upright.mode.startswith("I"):
        pixels = np.asarray(upright)
        sixteen = upright.mode.startswith("I;16")
        upright = Image.fromarray(to_bytes(pixels.astype(np.uint16) if sixteen else pixels))
    if upright.mode == "P" and "transparency" in upright.info:
        upright = upright.convert("RGBA")  # else pillow warns of each
    return upright.convert(MODES[channels])


def to_bytes(pixels: np.ndarray) -> np.ndarray:
    """Return numbers as uint8: those of 16 bits from 0 to 65535, others by their range.

    Floats from 0 to 1 are shares of 255. Wider ones, from 0 to 255, and whole numbers of more bits, are what they
    are; the latter up to 65535 are of 16 bits. Raises ValueError for others: what they mean is not known.
    """
    if pixels.dtype == np.uint8:
        return pixels
    low, high = (float(x) for x in (pixels.min(initial=0), pixels.max(initial=0)))
    floats = pixels.dtype.kind == "f"
    most = 1 if floats and high <= 1 else 255
    if pixels.dtype == np.uint16 or (not floats and high > most):
        most = BITS_16
    if pixels.dtype.kind not in "fiu" or not (low >= 0 and high <= most):
        wanted = "0 to 1, or 0 to 255" if floats else "0 to 255, or 0 to 65535"
        raise ValueError(f"{pixels.dtype} of {low:g} to {high:g}: give {wanted}")
    return np.round(pixels.astype(np.float64) * (255 / most)).astype(np.uint8)
