"""Examples of pictures with captions: of a folder, as datasets and diffusers have it, or drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redco_runtime.output import announce
from redco_runtime.errors import UserError, few
from redco_runtime.pictures.captions import encode_caption
from redco_runtime.pictures.checking import MEND, check_pictures
from redco_runtime.pictures.files import files_in
from redco_runtime.pictures.framing import Framing
from redco_runtime.pictures.opening import open_picture, to_bytes
from redco_runtime.pictures.scenes import draw_scene
from redco_runtime.pictures.tables import read_lines, read_tables
from redco_runtime.streams import count_held_out, held_out_example

TABLE = "metadata.jsonl"  # of a folder: a line for each picture, {"file_name": ..., "text": ...}
COLORS = 3  # red, green, blue
Pair = tuple[Path | np.ndarray, np.ndarray]  # a picture, and the ids of its caption


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
    """Return the training and the held-out examples: of `data.image_folder`, of the tables `data.image_data`, or drawn.

    data: its field `held_out` is the share that is never trained on.
    model: has image_size, pixels, and caption_length, bytes. Raises UserError for what does not fit it.
    """
    rng, size = np.random.default_rng(seed), model.image_size
    tables = getattr(data, "image_data", ())  # which older projects have not
    if data.image_folder or tables:
        if data.image_folder and tables:
            raise UserError("--image-folder: give it, or --image-data, and not both")
        rows = read_tables(tables, "text") if tables else None
        length = model.caption_length
        pairs = _captioned(rows, length) if rows else _read_table(Path(data.image_folder), length)
        flag = "--image-data" if tables else "--image-folder"
        check_pictures([path for path, _ in pairs], lambda path: read_picture(path, size), flag)
    else:
        scenes = (draw_scene(rng, size) for _ in range(data.drawn))
        pairs = [(pixels, encode_caption(text, model.caption_length)) for pixels, text in scenes]
    if len(pairs) < 2:
        named = data.image_folder or " ".join(tables)
        where = f"--image-{'data' if tables else 'folder'}: {named} has" if named else "--drawn:"
        raise UserError(f"{where} {len(pairs)} pictures: give two at least")
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    held_out = count_held_out(len(pairs), data.held_out)
    train, rest = ([*zip(*part, strict=True)] for part in (pairs[:-held_out], pairs[-held_out:]))
    return Captioned(train[0], train[1], size), Captioned(rest[0], rest[1], size)


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


def _read_table(folder: Path, length: int) -> list[Pair]:
    """Return (path, ids of the caption) of each line of the table of a folder. Raises UserError."""
    table = folder / TABLE
    if not table.is_file():
        raise UserError(f"--image-folder: {folder} has no {TABLE}, a line for each picture")
    rows = [*read_lines(table, "text", ("file_name",))]
    pairs, named = _captioned(rows, length), {path.resolve() for path, _, _ in rows}
    others = [path for path in files_in(folder)[0] if path.resolve() not in named]
    if others:
        announce(
            f"--image-folder: {len(others)} pictures without a line in {TABLE} are left out: {few(others, 3)}"
        )
    return pairs


def _captioned(rows: Iterable[tuple[Path, Any, str]], length: int) -> list[Pair]:
    """Return (path, ids of the caption) of rows. Raises UserError."""
    pairs: list[Pair] = []
    for path, caption, where in rows:
        if not isinstance(caption, str):
            raise UserError(f"{where}: {str(caption)[:40]!r}: give a caption")
        try:
            pairs.append((path, encode_caption(caption, length)))
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    return pairs
