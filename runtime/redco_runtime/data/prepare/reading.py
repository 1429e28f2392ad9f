"""Parts of files to documents, by what makes them of rows."""

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from ...base.paths import path_of
from ..text.documents import Bad, Maker, Part, Text, Tokens
from .formats import format_of, line_start, parse_rows

# Bytes of a text that a tokenizer gets at once: its cost grows faster than its length.
BLOCK = 2**16


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
