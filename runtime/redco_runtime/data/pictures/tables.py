"""Tables of pictures: JSON lines of their paths, and Parquet that has them, which are unpacked to files once."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError, few, writing
from ...base.json_lines import parse_json, read_text
from ...base.output import print_once
from ..class_columns import class_columns

PICTURE = (
    "image",
    "file_name",
    "path",
)  # keys of a row that may have the picture, the first that is there
UNPACKED = Path("~/.cache/redco/pictures")
INDEX = "index.json"
# How files begin -> how their names end, of those whose end tells whether they are whole.
BEGINS = {b"\x89PNG": ".png", b"\xff\xd8": ".jpg"}


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
        rows = _read_parquet if path.suffix.lower() == ".parquet" else read_lines
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


def _read_parquet(path: Path, field: str) -> Iterator[tuple[Path, Any, str]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UserError(f"--image-data: {path}: to read it, pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
        columns = file.schema_arrow.names
    except Exception as error:  # of any kind of the library
        raise UserError(f"--image-data: {path} cannot be read: {error}: mend it") from None
    key = next((key for key in PICTURE if key in columns), None)
    if key is None or field not in columns:
        absent = repr(field) if key else " or ".join(map(repr, PICTURE))
        raise UserError(f"--image-data: {path} has {few(columns)}, and no {absent}")
    names = class_columns(file.schema_arrow.metadata).get(field)
    values = file.read([field]).column(field).to_pylist()
    for number, (picture, value) in enumerate(
        zip(_unpack(path, file, key), values, strict=True), 1
    ):
        where = f"{path}, row {number}"
        if names and type(value) is int and 0 <= value < len(names):
            value = names[value]
        yield picture, value, where


def _unpack(path: Path, file: Any, key: str) -> list[Path]:
    """Return the file of each row's picture: where its path says, or in a folder that is made once."""
    stat = path.stat()
    seen = json.dumps([str(path.resolve()), stat.st_size, stat.st_mtime_ns, key])
    folder = UNPACKED.expanduser() / hashlib.sha256(seen.encode()).hexdigest()[:24]
    if not (folder / INDEX).is_file():
        with writing(folder, option="HOME"):
            folder.parent.mkdir(parents=True, exist_ok=True)
            print_once(f"data: the pictures of {path} are unpacked into {folder}")
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacking.") as beside:
                _write(path, file, key, Path(beside) / "new")
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    (Path(beside) / "new").rename(folder)
                except OSError:  # another process was first
                    if not (folder / INDEX).is_file():
                        raise
    names = json.loads((folder / INDEX).read_text())
    return [(folder if own else path.parent) / name for own, name in names]


def _write(path: Path, file: Any, key: str, folder: Path) -> None:
    """Write the pictures of a table into a folder, and which row has which, [whether it is there, its name]."""
    folder.mkdir()
    index: list[tuple[bool, str]] = []
    for batch in file.iter_batches(64, columns=[key]):
        for picture in batch.column(0).to_pylist():
            where = f"--image-data: {path}, row {len(index) + 1}"
            parts = picture if isinstance(picture, dict) else {"path": picture}
            data, name = parts.get("bytes"), parts.get("path")
            data = picture if isinstance(picture, bytes) else data
            if isinstance(data, bytes):
                end = next((end for start, end in BEGINS.items() if data.startswith(start)), ".img")
                own = f"{len(index):08d}{end}"
                (folder / own).write_bytes(data)
                index.append((True, own))
            elif isinstance(name, str) and (path.parent / name).is_file():
                index.append((False, name))
            else:
                raise UserError(f"{where}: no picture, and no path of one: {str(picture)[:40]}")
    (folder / INDEX).write_text(json.dumps(index))
