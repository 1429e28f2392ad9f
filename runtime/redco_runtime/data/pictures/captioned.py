"""Examples of pictures with captions: of a folder, as datasets and diffusers have it, or drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.messages import UserError, announce, feature, few
from ..example_streams import count_held_out
from .captions import encode_caption
from .checking import check_pictures
from .files import files_in
from .picture_rows import read_lines
from .reading import read_picture
from .scenes import draw_scene

TABLE = "metadata.jsonl"  # of a folder: a line for each picture, {"file_name": ..., "text": ...}
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
        rows = None
        if tables:
            own = feature("tables", "data.pictures.tables", "--image-data")
            rows = own.read_tables(tables, "text")
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
