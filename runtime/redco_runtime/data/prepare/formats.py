"""The formats of files: how one is cut into parts, the rows of a part, and their documents, by what makes them of rows."""

import codecs
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, TypeVar

from ...base.messages import UserError, feature
from ...base.files import check_characters, parse_json, path_of
from ..text.documents import Bad, Maker, Part, Text, Tokens
from ..text.sources import Source

T = TypeVar("T")

RANGE = 2**22  # bytes of a part of a file, about: parts of many files go into one shard alike
# Bytes of a text that a tokenizer gets at once: its cost grows faster than its length.
BLOCK = 2**16
LINE = 2**16  # bytes of a line that are read at once where it is only looked for


class Row(NamedTuple):
    """A row of a file: its value, its place there, and why it is none, where it cannot be read."""

    value: Any
    at: int
    fault: str = ""


Rows = Iterator[Row]


@dataclass(frozen=True)
class Format:
    """A way to keep rows. `rows`: of a table the column of that name alone, which has texts, or all for ""."""

    split: Callable[[str], Iterable[Part]]  # the parts of a file
    rows: Callable[[Part, str], Rows]  # those of a part
    where: Callable[[str, int], str] = lambda file, at: f"{file}, row {at + 1}"  # for people


def format_of(file: str) -> str:
    """Return the name of a file's format, by its name: what has no other is text."""
    if file.startswith(("hf:", "stream:")):
        return file.partition(":")[0]
    return SUFFIXES.get(os.path.splitext(file)[1].lower(), "text")


def find_format(file: str) -> Format:
    """Return how a file keeps its rows. Raises UserError for a table in a project that reads none."""
    name = format_of(file)
    if name in FORMATS:
        return FORMATS[name]
    named = f"--data: {file.removeprefix('stream:')}"
    return feature("tables", "data.prepare.tables", named).TABLES[name]


def parts_of(source: Source) -> Iterator[Part]:
    """Yield the parts of a source, in order. Raises UserError."""
    for file in source.files:
        yield from find_format(file).split(file)


def read_rows(part: Part, column: str = "") -> Rows:
    """Yield the rows of a part, as `Format.rows` says. Raises UserError."""
    return find_format(part.file).rows(part, column)


def describe(bad: Bad) -> str:
    """Return where a row is, for people, and why it is none; a file of lines is read up to there."""
    return f"{find_format(bad.part.file).where(bad.part.file, bad.at)} {bad.why}"


def parse_rows(
    parts: Iterable[Part], parse: Callable[[Any], T], column: str = ""
) -> Iterator[T | Bad]:
    """Yield what `parse` makes of each row of parts, and the rows that it raises ValueError for. Raises UserError.

    column: as of `Format.rows`.
    """
    for part in parts:
        for row in read_rows(part, column):
            try:
                if row.fault:
                    raise ValueError(row.fault)
                yield parse(row.value)
            except ValueError as error:
                yield Bad(part, row.at, str(error))


def _split_lines(file: str) -> list[Part]:
    size = path_of(file).stat().st_size
    starts = range(0, size, RANGE)
    return [Part(file, at, min(at + RANGE, size), min(RANGE, size - at)) for at in starts]


def _split_json(file: str) -> list[Part]:
    size = path_of(file).stat().st_size
    return [Part(file, 0, size, size)] if is_array(file) else _split_lines(file)


def is_array(file: str) -> bool:
    """Return whether a file is an array of JSON, and not a line of it a row."""
    with path_of(file).open("rb") as opened:
        return opened.read(64).lstrip().startswith(b"[")


def _rows_json(part: Part, _: str) -> Rows:
    if is_array(part.file):
        yield from _items(part.file)
        return
    with path_of(part.file).open("rb") as file:
        at = line_start(file, part.start)
        while at < part.stop and (line := file.readline()):
            if line.strip():
                try:
                    yield Row(parse_json(line.rstrip()), at)
                except ValueError as error:
                    yield Row(None, at, f"is not JSON: {_why(error)}")
            at += len(line)


def _why(error: ValueError) -> str:
    """Return why a line is not JSON, whose own number is the only one to name."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, at character {error.pos + 1}"
    return str(error)


def _items(path: str) -> Iterator[Row]:
    with path_of(path).open("rb") as file:
        try:
            rows = parse_json(file.read(), checked=False)
        except ValueError as error:
            todo = "mend it, or leave it out"
            raise UserError(f"--data: {path} is not JSON: {error}: {todo}") from None
    for number, row in enumerate(rows):
        yield Row(row, number, _fault(row))


def _fault(row: Any) -> str:
    try:
        check_characters(row)
    except ValueError as error:
        return f"is not JSON: {error}"
    return ""


def _where_json(file: str, at: int) -> str:
    return f"{file}, item {at + 1}" if is_array(file) else line_of(file, at)


def line_start(file: BinaryIO, at: int) -> int:
    """Find the first line that begins at byte `at` or after it, and return where that is; the file is there then."""
    if at:
        file.seek(at - 1)
        while (block := file.readline(LINE)) and not block.endswith(b"\n"):
            pass
    return file.tell()


def line_of(path: str, at: int) -> str:
    """Return the line of a file that byte `at` is in, for people."""
    with path_of(path).open("rb") as file:
        blocks = iter(lambda: file.read(min(2**20, at - file.tell())), b"")
        number = 1 + sum(block.count(b"\n") for block in blocks)
    return f"{path}, line {number}"


def _no_rows(part: Part, _: str) -> Rows:
    todo = "give .jsonl, .json, .parquet, .arrow or hf:NAME"
    raise UserError(f"--data: {part.file} has text, and no rows: {todo}")


FORMATS = {
    "text": Format(_split_lines, _no_rows, line_of),
    "json": Format(_split_json, _rows_json, _where_json),
}
JSON = dict.fromkeys((".jsonl", ".ndjson", ".json"), "json")
SUFFIXES = {**JSON, ".parquet": "parquet", ".arrow": "arrow"}


def read_documents(maker: Maker, parts: Iterable[Part]) -> Iterator[Tokens | Bad]:
    """Yield the documents of parts, and the rows that are none. Raises UserError."""
    return maker.documents(_batches(maker, parts))


def _batches(maker: Maker, parts: Iterable[Part]) -> Iterator[list[Any] | Bad]:
    """Yield batches of rows, and the rows that are none, which may come earlier."""
    batch, size = list[Any](), 0
    for item in (item for part in parts for item in read_items(maker, part)):
        if isinstance(item, Bad):
            yield item
            continue
        batch.append(item)
        size += maker.size(item)
        if size >= maker.batch:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_items(maker: Maker, part: Part) -> Iterator[Any]:
    """Yield the rows of a part as `Maker.parse` gives them, or its text, and the rows that are none. Raises UserError."""
    if maker.field and format_of(part.file) == "text":
        return read_text(part)
    return parse_rows([part], maker.parse, maker.field)


def read_text(part: Part) -> Iterator[Text | Bad]:
    """Yield the lines that begin in a part, BLOCK bytes at a time. The whole file is one document."""
    with path_of(part.file).open("rb") as file:
        first, size = line_start(file, part.start), file.seek(0, 2)
        at = file.seek(first)
        decoder = codecs.getincrementaldecoder("utf-8" if at else "utf-8-sig")()
        block = b"\n"
        while (at < part.stop or not block.endswith(b"\n")) and at < size:
            block = file.read(max(1, min(BLOCK, part.stop - at)))
            if not block.endswith(b"\n"):
                block += file.readline(BLOCK)
            try:
                yield Text(decoder.decode(block, at + len(block) == size), None)
            except UnicodeError as error:
                place = at + getattr(error, "start", 0)
                yield Bad(part, place, "is not UTF-8: convert or unpack the file")
                decoder.reset()
            at += len(block)
        if at > first:
            yield Text("", at == size)
