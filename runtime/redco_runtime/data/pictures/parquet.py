"""Parquet that has pictures, which are unpacked to files once."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base.messages import UserError, few, print_once, writing
from ..class_columns import class_columns
from .picture_rows import PICTURE

UNPACKED = Path("~/.cache/redco/pictures")
INDEX = "index.json"
# How files begin -> how their names end, of those whose end tells whether they are whole.
BEGINS = {b"\x89PNG": ".png", b"\xff\xd8": ".jpg"}


def read_parquet(path: Path, field: str) -> Iterator[tuple[Path, Any, str]]:
    """Yield what `read_tables` does, of Parquet."""
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
