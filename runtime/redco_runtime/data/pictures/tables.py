"""Tables of pictures: JSON lines of their paths, and Parquet that has them, of parquet.py."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.features import feature
from ...base.json_lines import parse_json, read_text

PICTURE = (
    "image",
    "file_name",
    "path",
)  # keys of a row that may have the picture, the first that is there


def read_tables(names: Sequence[str], field: str) -> Iterator[tuple[Path, Any, str]]:
    """Yield (file of a picture, what its row has in `field`, where that row is) of .jsonl and .parquet files.

    A number that a table of datasets has a name for is that name. Raises UserError, which names file and row.
    """
    for name in names:
        path = Path(name).expanduser()
        if path.is_dir():
            raise UserError(
                f"--image-data: {name} is a folder: give it to --image-folder, or here a table of its pictures"
            )
        if not path.is_file():
            raise UserError(f"--image-data: {name}: there is no such file")
        if path.suffix.lower() not in (".jsonl", ".parquet"):
            raise UserError(f"--image-data: {name}: give .jsonl or .parquet")
        rows = read_lines
        if path.suffix.lower() == ".parquet":
            rows = feature("tables", "data.pictures.parquet", f"--image-data: {name}").read_parquet
        yield from rows(path, field)


def read_lines(
    path: Path, field: str, keys: Sequence[str] = PICTURE
) -> Iterator[tuple[Path, Any, str]]:
    """Yield the same of JSON lines, whose paths are from the folder of the file."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = parse_json(line)
            key = next(key for key in keys if key in row)
            picture, value = path.parent / row[key], row[field]
        except (ValueError, KeyError, TypeError, StopIteration):
            todo = f'give {{"{keys[0]}": a file, from the folder of this one, "{field}": ...}}'
            raise UserError(f"{where}: {line[:40]!r}: {todo}") from None
        if not picture.is_file():
            raise UserError(f"{where}: {picture} is not there")
        yield picture, value, where
