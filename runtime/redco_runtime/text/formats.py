"""The formats of texts: how a file is cut into parts, and the documents of a part."""

import codecs
import functools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from redco_runtime.errors import UserError, few

RANGE = 2**22  # bytes of a part of a file of lines: parts of many files go into one shard alike
BLOCK = (
    2**16
)  # bytes of a text that a tokenizer gets at once: its cost grows faster than its length
ROWS = 1024  # of a table at a time


class Part(NamedTuple):
    """A part of a file: bytes, groups of rows, or rows from `start` to `stop - 1`; of `size` bytes."""

    file: str
    start: int
    stop: int
    size: int


class Text(NamedTuple):
    """A document, or a part of a long one; `ends`: whether it ends there, None where it goes on.

    It is not ended, but cut, where the part of the file ends.
    """

    text: str
    ends: bool | None


class Bad(NamedTuple):
    """A row that is no document: where it is, for people, and why."""

    where: str
    why: str


@dataclass(frozen=True)
class Format:
    """A way to keep texts.

    split: the parts of a file. read: the documents of a part, and the rows that are none, by the name
    of the field that has the text. content: a digest, of what is no file.
    """

    split: Callable[[str], list[Part]]
    read: Callable[[Part, str], Iterator[Text | Bad]]
    content: Callable[[str], str] = str


def format_of(file: str) -> str:
    """Return the name of a file's format, by its name: what has no other is text."""
    if file.startswith("hf:"):
        return "hf"
    return SUFFIXES.get(os.path.splitext(file)[1].lower(), "text")


def read_part(part: Part, field: str) -> Iterator[Text | Bad]:
    """Yield the documents of a part, and the rows that are none. Raises UserError."""
    return FORMATS[format_of(part.file)].read(part, field)


def read_records(file: str) -> Iterator[tuple[str, Any]]:
    """Yield (where, row) of each row of a table, with all its columns. Raises UserError."""
    kind = format_of(file)
    if kind == "parquet":
        batches = _open_parquet(file).iter_batches(ROWS)
    elif kind == "arrow":
        batches = _arrow_batches(file)[1]
    else:
        batches = _dataset(file).with_format("arrow").iter(ROWS)
    rows = (row for batch in batches for row in batch.to_pylist())
    yield from ((f"{file}, row {number}", row) for number, row in enumerate(rows, 1))


def _fault(row: Any, field: str) -> str | None:
    """Return why a row of JSON has no text in its field; None where it has."""
    if not isinstance(row, dict):
        return f"is {_name(row)}, and not an object with {field!r}"
    if field not in row:
        return f"has no {field!r}, but {few(row) or 'nothing'}: --text-field names another"
    if not isinstance(row[field], str):
        return f"has {_name(row[field])} in {field!r}, and no text"
    try:
        row[field].encode()
    except UnicodeError:
        return f"has half a surrogate pair in {field!r}, which is no character"
    return None


def _name(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null"}
    return names.get(type(value).__name__, f"the value {value!r}")


def _split_lines(file: str) -> list[Part]:
    size = os.path.getsize(file)
    starts = range(0, size, RANGE)
    return [Part(file, at, min(at + RANGE, size), min(RANGE, size - at)) for at in starts]


def _read_json(part: Part, field: str) -> Iterator[Text | Bad]:
    with open(part.file, "rb") as file:
        at = _line_start(file, part.start)
        while at < part.stop and (line := file.readline()):
            if line.strip():
                try:
                    row = json.loads(line)
                    fault = _fault(row, field)
                except ValueError as error:
                    fault = f"is not JSON: {error}"
                if fault:
                    yield Bad(f"{part.file}, line {_line_number(part.file, at)}", fault)
                else:
                    yield Text(row[field], True)
            at += len(line)


def _read_text(part: Part, field: str) -> Iterator[Text | Bad]:
    """Yield the lines that begin in a part, BLOCK bytes at a time. The whole file is one document."""
    with open(part.file, "rb") as file:
        first, size = _line_start(file, part.start), os.path.getsize(part.file)
        at = first
        decoder = codecs.getincrementaldecoder("utf-8" if at else "utf-8-sig")()
        block = b"\n"
        while (at < part.stop or not block.endswith(b"\n")) and at < size:
            block = file.read(max(1, min(BLOCK, part.stop - at)))
            if not block.endswith(b"\n"):
                block += file.readline(BLOCK)
            try:
                yield Text(decoder.decode(block, at + len(block) == size), None)
            except UnicodeError as error:
                number = _line_number(part.file, at + getattr(error, "start", 0))
                yield Bad(f"{part.file}, line {number}", "is not UTF-8: convert or unpack the file")
                decoder.reset()
            at += len(block)
        if at > first:
            yield Text("", at == size)


def _line_start(file: BinaryIO, at: int) -> int:
    """Find the first line that begins at byte `at` or after it, and return where that is; the file is there then."""
    if at:
        file.seek(at - 1)
        while (block := file.readline(BLOCK)) and not block.endswith(b"\n"):
            pass
    return file.tell()


def _line_number(path: str, at: int) -> int:
    """Return the number of the line, from 1, that byte `at` of a file is in."""
    with open(path, "rb") as file:
        blocks = iter(lambda: file.read(min(2**20, at - file.tell())), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)


def _split_parquet(path: str) -> list[Part]:
    meta = _open_parquet(path).metadata
    sizes = [meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)]
    return [Part(path, i, i + 1, size) for i, size in enumerate(sizes)]


def _read_parquet(part: Part, field: str) -> Iterator[Text | Bad]:
    file = _open_parquet(part.file)
    _check_column(part.file, file.schema_arrow, field)
    groups = [file.metadata.row_group(i).num_rows for i in range(part.start)]
    batches = file.iter_batches(ROWS, range(part.start, part.stop), [field])
    return _read_column(part.file, (batch.column(0) for batch in batches), sum(groups))


def _open_parquet(path: str) -> Any:
    pyarrow = _load("pyarrow.parquet", path)
    return _opened(path, lambda: pyarrow.ParquetFile(path))


def _split_arrow(path: str) -> list[Part]:
    return [Part(path, 0, 1, os.path.getsize(path))]


def _read_arrow(part: Part, field: str) -> Iterator[Text | Bad]:
    schema, batches = _arrow_batches(part.file)
    _check_column(part.file, schema, field)
    return _read_column(part.file, (batch[field] for batch in batches), 0)


def _arrow_batches(path: str) -> tuple[Any, Iterator[Any]]:
    """Return (schema, record batches) of a file, with a footer or, as datasets writes it, without."""
    arrow = _load("pyarrow", path)

    def open_arrow() -> Any:
        with arrow.memory_map(path) as file:
            footed = file.read(6) == b"ARROW1"
        source = arrow.memory_map(path)
        return arrow.ipc.open_file(source) if footed else arrow.ipc.open_stream(source)

    reader = _opened(path, open_arrow)
    count = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if count is None else map(reader.get_batch, range(count))
    return reader.schema, batches


def _split_hf(name: str) -> list[Part]:
    count, size = len(_dataset(name)), _dataset(name).dataset_size or 0
    bytes_per_row = max(1, size // max(1, count)) if size else BLOCK // 16
    rows = max(1, RANGE // bytes_per_row)
    starts = range(0, count, rows)
    return [Part(name, i, min(i + rows, count), rows * bytes_per_row) for i in starts]


def _read_hf(part: Part, field: str) -> Iterator[Text | Bad]:
    table = _dataset(part.file)
    _check_column(part.file, table.features.arrow_schema, field)
    rows = table.select(range(part.start, part.stop)).with_format("arrow")
    return _read_column(part.file, (batch[field] for batch in rows.iter(ROWS)), part.start)


@functools.lru_cache(maxsize=4)
def _dataset(name: str) -> Any:
    """Return a data set by hf:NAME[:SPLIT], NAME a folder or an id of the hub; "train" by default."""
    datasets = _load("datasets", name)
    path, _, split = name.removeprefix("hf:").partition(":")
    saved = os.path.isdir(path) and {"state.json", "dataset_dict.json"} & {*os.listdir(path)}

    def load() -> Any:
        if not saved:
            return datasets.load_dataset(path, split=split or "train")
        whole = datasets.load_from_disk(path)
        if split and not isinstance(whole, dict):
            raise ValueError(f"it is one data set, without the split {split!r}")
        return whole[split or "train"] if isinstance(whole, dict) else whole

    return _opened(name, load)


def _load(module: str, name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UserError(f"--data: {name}: to read it, pip install {package}") from None


def _opened(name: str, load: Callable[[], Any]) -> Any:
    """Return what `load` does. Raises UserError, since it is the file that a library refuses."""
    try:
        return load()
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:400]
        raise UserError(f"--data: {name} cannot be read: {why}: mend it, or leave it out") from None


def _check_column(name: str, schema: Any, field: str) -> None:
    if field not in schema.names:
        columns = few(schema.names) or "nothing"
        raise UserError(
            f"--data: {name} has no column {field!r}, but {columns}: --text-field names another"
        )
    if str(kind := schema.field(field).type) not in ("string", "large_string", "string_view"):
        raise UserError(
            f"--data: {name} has {kind} in its column {field!r}, and no text: --text-field names another"
        )


def _read_column(name: str, columns: Iterator[Any], first: int) -> Iterator[Text | Bad]:
    for column in columns:
        for number, text in enumerate(column.to_pylist(), first + 1):
            yield (
                Bad(f"{name}, row {number}", "has null, and no text")
                if text is None
                else Text(text, True)
            )
        first += len(column)


FORMATS = {
    "text": Format(_split_lines, _read_text),
    "json": Format(_split_lines, _read_json),
    "parquet": Format(_split_parquet, _read_parquet),
    "arrow": Format(_split_arrow, _read_arrow),
    "hf": Format(_split_hf, _read_hf, lambda name: _dataset(name)._fingerprint),
}
SUFFIXES = {
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
