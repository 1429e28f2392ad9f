"""JSON lines of the paths of pictures, from the folder of their file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.messages import UserError
from ...base.files import parse_json, read_text

PICTURE = ("image", "file_name", "path")  # keys of a row that may have the picture, the first there


def read_lines(
    path: Path, field: str, keys: Sequence[str] = PICTURE
) -> Iterator[tuple[Path, Any, str]]:
    """Yield (file of a picture, what its row has in `field`, where that row is). Raises UserError, which names file and row."""
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
