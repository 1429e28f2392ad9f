"""Tables: Parquet, Arrow, and the data sets that `datasets` reads."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from redco_runtime.errors import UserError, few
from redco_runtime.text.parts import RANGE, Part, Row, Rows

ROWS = 1024  # of a table at a time


def split_parquet(path: str) -> list[Part]:
    """Return the groups of rows of a file of Parquet."""
    meta = _open_parquet(path).metadata
    sizes = [meta.row_group(i).total_byte_size for i in range(meta.num_row_groups)]
    return [Part(path, i, i + 1, size) for i, size in enumerate(sizes)]


def rows_parquet(part: Part, column: str) -> Rows:
    """Yield the rows of a part of a file of Parquet."""
    file = _open_parquet(part.file)
    columns = _check_column(part.file, file.schema_arrow, column)
    groups = [file.metadata.row_group(i).num_rows for i in range(part.start)]
    batches = file.iter_batches(ROWS, range(part.start, part.stop), columns)
    return _rows(batches, sum(groups))


def _open_parquet(path: str) -> Any:
    pyarrow = _load("pyarrow.parquet", path)
    return _opened(path, lambda: pyarrow.ParquetFile(path))


def split_arrow(path: str) -> list[Part]:
    """Return a file of Arrow as one part."""
    return [Part(path, 0, 1, os.path.getsize(path))]


def rows_arrow(part: Part, column: str) -> Rows:
    """Yield the rows of a file of Arrow."""
    schema, batches = _arrow_batches(part.file)
    columns = _check_column(part.file, schema, column)
    return _rows((batch.select(columns) if columns else batch for batch in batches), 0)


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


def split_hf(name: str) -> list[Part]:
    """Return parts of the rows of a data set."""
    count, size = len(_dataset(name)), _dataset(name).dataset_size or 0
    bytes_per_row = max(1, size // max(1, count)) if size else 4096
    rows = max(1, RANGE // bytes_per_row)
    starts = range(0, count, rows)
    return [Part(name, i, min(i + rows, count), rows * bytes_per_row) for i in starts]


def rows_hf(part: Part, column: str) -> Rows:
    """Yield the rows of a part of a data set."""
    table = _dataset(part.file)
    columns = _check_column(part.file, table.features.arrow_schema, column)
    some = table.select(range(part.start, part.stop)).with_format("arrow", columns=columns)
    return _rows(some.iter(ROWS), part.start)


def fingerprint(name: str) -> str:
    """Return what datasets calls the content of a data set."""
    return str(_dataset(name)._fingerprint)


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


def _check_column(name: str, schema: Any, field: str) -> list[str] | None:
    """Return the columns to read. Raises UserError where the one of that name has no texts."""
    if not field:
        return None
    if field not in schema.names:
        columns = few(schema.names) or "nothing"
        raise UserError(
            f"--data: {name} has no column {field!r}, but {columns}: --text-field names another"
        )
    if str(kind := schema.field(field).type) not in ("string", "large_string", "string_view"):
        raise UserError(
            f"--data: {name} has {kind} in its column {field!r}, and no text: --text-field names another"
        )
    return [field]


def _rows(batches: Iterable[Any], first: int) -> Rows:
    rows = (row for batch in batches for row in batch.to_pylist())
    return (Row(row, number) for number, row in enumerate(rows, first))
