"""Tables: Parquet, Arrow, and the data sets that `datasets` reads."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from ...base.messages import UserError, few
from ...base.files import path_of, scheme_of
from ..class_columns import class_columns, with_classes
from ..text.documents import Part
from .formats import RANGE, Format, Row, Rows

ROWS = 1024  # of a table at a time


def _split_parquet(path: str) -> list[Part]:
    meta = _open_parquet(path).metadata
    sizes = [meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)]
    return [Part(path, i, i + 1, size) for i, size in enumerate(sizes)]


@functools.lru_cache(1)
def _count_parquet(path: str) -> int:
    return int(_open_parquet(path).metadata.num_rows)


def _rows_parquet(part: Part, column: str) -> Rows:
    file = _open_parquet(part.file)
    columns = _check_column(part.file, file.schema_arrow, column)
    groups = [file.metadata.row_group(i).num_rows for i in range(part.start)]
    batches = file.iter_batches(ROWS, range(part.start, part.stop), columns)
    return _rows(part.file, batches, sum(groups), file.schema_arrow)


def _open_parquet(path: str) -> Any:
    pyarrow = _load("pyarrow.parquet", path)
    source = path_of(path).open("rb") if scheme_of(path) else path
    return _opened(path, lambda: pyarrow.ParquetFile(source))


def _split_arrow(path: str) -> list[Part]:
    return [Part(path, 0, 1, path_of(path).stat().st_size)]


def _rows_arrow(part: Part, column: str) -> Rows:
    schema, batches = _arrow_batches(part.file)
    columns = _check_column(part.file, schema, column)
    some = (batch.select(columns) if columns else batch for batch in batches)
    return _rows(part.file, some, 0, schema)


@functools.lru_cache(1)
def _count_arrow(path: str) -> int:
    return sum(batch.num_rows for batch in _arrow_batches(path)[1])


def _arrow_batches(path: str) -> tuple[Any, Iterator[Any]]:
    """Return (schema, record batches) of a file, with a footer or, as datasets writes it, without."""
    arrow = _load("pyarrow", path)

    def open_arrow() -> Any:
        with path_of(path).open("rb") as file:
            footed = file.read(6) == b"ARROW1"
        source = path_of(path).open("rb") if scheme_of(path) else arrow.memory_map(path)
        return arrow.ipc.open_file(source) if footed else arrow.ipc.open_stream(source)

    reader = _opened(path, open_arrow)
    number = getattr(reader, "num_record_batches", None)
    batches = iter(reader) if number is None else map(reader.get_batch, range(number))
    return reader.schema, batches


def _split_hf(name: str) -> list[Part]:
    length, size = len(_dataset(name)), _dataset(name).dataset_size or 0
    bytes_per_row = max(1, size // max(1, length)) if size else 4096
    rows = max(1, RANGE // bytes_per_row)
    starts = range(0, length, rows)
    return [Part(name, i, min(i + rows, length), rows * bytes_per_row) for i in starts]


def _rows_hf(part: Part, column: str) -> Rows:
    table = _dataset(part.file)
    columns = _check_column(part.file, table.features.arrow_schema, column)
    some = table.select(range(part.start, part.stop)).with_format("arrow", columns=columns)
    return _rows(part.file, some.iter(ROWS), part.start, table.features.arrow_schema)


def fingerprint_of(name: str) -> str:
    """Return what datasets calls the content of a data set."""
    return str(_dataset(name)._fingerprint)


def rows_of_dataset(name: str, start: int) -> Rows:
    """Yield the rows of a data set from one on, as they come."""
    whole = _dataset(name, streaming=True)
    features = getattr(whole, "features", None)  # which not all know before they are read
    classes = class_columns(features.arrow_schema.metadata) if features else {}
    rows = _opened(name, lambda: iter(whole.skip(start) if start else whole))
    for number in count(start):
        if (row := _opened(name, lambda: next(rows, None))) is None:
            return
        yield Row(with_classes(row, classes), number)


@functools.lru_cache(maxsize=4)
def _dataset(name: str, streaming: bool = False) -> Any:
    """Return a data set by hf:NAME[:SPLIT], NAME a folder or an id of the hub; "train" by default."""
    datasets = _load("datasets", name)
    path, _, split = name.removeprefix("hf:").partition(":")
    saved = os.path.isdir(path) and {"state.json", "dataset_dict.json"} & {*os.listdir(path)}

    def load() -> Any:
        if not saved:
            return datasets.load_dataset(path, split=split or "train", streaming=streaming)
        whole = datasets.load_from_disk(path)
        if split and not isinstance(whole, dict):
            raise ValueError(f"it is one data set, without the split {split!r}")
        table = whole[split or "train"] if isinstance(whole, dict) else whole
        return table.to_iterable_dataset() if streaming else table

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


def _check_column(name: str, schema: Any, field: str) -> list[str] | None:
    """Return the columns to read. Raises UserError where the one of that name has no texts."""
    if not field:
        return None
    if field not in schema.names:
        what = f"has no column {field!r}, but {few(schema.names) or 'nothing'}"
    elif str(kind := schema.field(field).type) not in ("string", "large_string", "string_view"):
        what = f"has {kind} in its column {field!r}, and no text"
    else:
        return [field]
    raise UserError(f"--data: {name} {what}: --text-field names another")


def _rows(name: str, batches: Iterable[Any], first: int, schema: Any) -> Rows:
    """Yield the rows of batches, by number from `first`. Raises UserError where one is damaged."""
    more, classes = iter(batches), class_columns(schema.metadata)
    while (batch := _opened(name, lambda: next(more, None))) is not None:
        for row in _opened(name, functools.partial(_decode, batch, first)):
            value = with_classes(row.value, classes) if classes and row.value else row.value
            yield row._replace(value=value)
        first += batch.num_rows


def _decode(batch: Any, first: int) -> list[Row]:
    """Return the rows of a batch; its texts are bytes until now, of which some may be none."""
    try:
        return [Row(row, number) for number, row in enumerate(batch.to_pylist(), first)]
    except UnicodeDecodeError:
        if batch.num_rows == 1:
            return [Row(None, first, "is not UTF-8")]
        ones = (_decode(batch.slice(i, 1), first + i) for i in range(batch.num_rows))
        return [row for one in ones for row in one]


TABLES = {
    "parquet": Format(_split_parquet, _rows_parquet),
    "arrow": Format(_split_arrow, _rows_arrow),
    "hf": Format(_split_hf, _rows_hf),
}
COUNTS = {"parquet": _count_parquet, "arrow": _count_arrow}  # file -> how many rows it has
