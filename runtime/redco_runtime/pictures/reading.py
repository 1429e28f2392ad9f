"""Examples of pictures with captions: of a folder, as datasets and diffusers have it, or drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redco_runtime.errors import UserError
from redco_runtime.lines import parse_json
from redco_runtime.pictures.captions import encode_caption
from redco_runtime.pictures.checking import MEND, check_pictures
from redco_runtime.pictures.scenes import draw_scene
from redco_runtime.streams import count_held_out

TABLE = "metadata.jsonl"  # of a folder: a line for each picture, {"file_name": ..., "text": ...}
COLORS = 3  # red, green, blue


@dataclass(frozen=True)
class Captioned(Sequence[Any]):
    """Examples {"pixels": uint8 (size, size, 3), "caption": int32 (length,)}; files are read when asked for."""

    pictures: Sequence[Path | np.ndarray]
    captions: Sequence[np.ndarray]
    size: int

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: Any) -> Any:
        picture = self.pictures[index]
        pixels = read_picture(picture, self.size) if isinstance(picture, Path) else picture
        return {"pixels": pixels, "caption": self.captions[index]}


def read_captioned(data: Any, model: Any, seed: int) -> tuple[Captioned, Captioned]:
    """Return the training and the held-out examples: of `data.image_folder`, or drawn, `data.drawn` of them.

    data: its field `held_out` is the share that is never trained on.
    model: has image_size, pixels, and caption_length, bytes. Raises UserError for what does not fit it.
    """
    rng, size = np.random.default_rng(seed), model.image_size
    pairs: list[tuple[Path | np.ndarray, np.ndarray]]
    if data.image_folder:
        pairs = _read_table(Path(data.image_folder), model.caption_length)
        check_pictures([path for path, _ in pairs], lambda path: read_picture(path, size))
    else:
        scenes = (draw_scene(rng, size) for _ in range(data.drawn))
        pairs = [(pixels, encode_caption(text, model.caption_length)) for pixels, text in scenes]
    if len(pairs) < 2:
        where = f"--image-folder: {data.image_folder} has" if data.image_folder else "--drawn:"
        raise UserError(f"{where} {len(pairs)} pictures: give two at least")
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    held_out = count_held_out(len(pairs), data.held_out)
    train, rest = ([*zip(*part, strict=True)] for part in (pairs[:-held_out], pairs[-held_out:]))
    return Captioned(train[0], train[1], size), Captioned(rest[0], rest[1], size)


def read_picture(path: Path, size: int, channels: int = COLORS) -> np.ndarray:
    """Return the pixels of a file: uint8 (size, size, channels), 3 or 1. Raises UserError.

    An array, .npy, has them as they are; a picture is resized.
    """
    from PIL import Image, UnidentifiedImageError  # late: few read files

    try:
        if path.suffix.lower() == ".npy":
            pixels = np.asarray(np.load(path))
        else:
            with Image.open(path) as image:
                pixels = _fit(image, size, channels)
    except UnidentifiedImageError:
        raise UserError(f"{path}: no picture: give .npy, or what pillow reads") from None
    except Exception as error:  # each decoder has its own
        raise UserError(f"{path}: cannot be read: {error}: {MEND}") from None
    if pixels.shape != (size, size, channels) or pixels.dtype != np.uint8:
        actual, wanted = f"{pixels.dtype} {pixels.shape}", f"uint8 {(size, size, channels)}"
        raise UserError(f"{path}: {actual}, and the model takes {wanted}, of 0 to 255")
    return pixels


def fit_picture(pixels_HW: np.ndarray, size: int, channels: int = COLORS) -> np.ndarray:
    """Return a gray picture, uint8 (H, W), as one of uint8 (size, size, channels)."""
    from PIL import Image

    return _fit(Image.fromarray(pixels_HW), size, channels)


def _fit(image: Any, size: int, channels: int) -> np.ndarray:
    """Return the pixels of an image of pillow, resized."""
    mode = "RGB" if channels == COLORS else "L"
    return np.asarray(image.convert(mode).resize((size, size))).reshape(size, size, -1)


def prompted_picture(
    text: str, held_out: Sequence[Any], size: int, channels: int = COLORS
) -> dict[str, np.ndarray]:
    """Return the held-out example of a number, or {"pixels": ...} of the file at a path. Raises UserError."""
    if text.isdecimal():
        return dict(held_out[int(text) % len(held_out)])
    if not Path(text).is_file():
        raise UserError(f"--prompt: {text} is neither a file nor the number of a held-out picture")
    return {"pixels": read_picture(Path(text), size, channels)}


def _read_table(folder: Path, length: int) -> list[tuple[Path | np.ndarray, np.ndarray]]:
    """Return (path, ids of the caption) of each line of the table of a folder. Raises UserError."""
    table = folder / TABLE
    pairs: list[tuple[Path | np.ndarray, np.ndarray]] = []
    if not table.is_file():
        raise UserError(f"--image-folder: {folder} has no {TABLE}, a line for each picture")
    for number, line in enumerate(table.read_text("utf-8").splitlines(), 1):
        try:
            row = parse_json(line)
            path, caption = folder / row["file_name"], encode_caption(row["text"], length)
        except (ValueError, KeyError, TypeError, AttributeError):
            todo = 'give {"file_name": a file of the folder, "text": its caption}'
            raise UserError(f"{table}:{number}: {line[:40]!r}: {todo}") from None
        except UserError as error:
            raise UserError(f"{table}:{number}: {error}") from None
        if not path.is_file():
            raise UserError(f"{table}:{number}: {path} is not there")
        pairs.append((path, caption))
    return pairs
