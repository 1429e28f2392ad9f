"""Tables of pictures: JSON lines of their paths, and Parquet that has them, of parquet.py."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.messages import UserError
from .parquet import read_parquet
from .picture_rows import read_lines


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
        rows = read_parquet if path.suffix.lower() == ".parquet" else read_lines
        yield from rows(path, field)
