"""Texts of files to documents: a field of rows, or whole files, tokenized a batch at a time."""

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base.errors import few
from .documents import Bad, Tokens
from .encoder import Encoder
from .formats import format_of, line_start, read_rows
from .parts import Part

# Bytes of a text that a tokenizer gets at once: its cost grows faster than its length.
BLOCK = 2**16
BATCH = 2**20  # characters that are tokenized at once: what a process holds is some times that


class Text(NamedTuple):
    """A text, or a part of a long one; `ends` as of Tokens."""

    text: str
    ends: bool | None


@dataclass
class TextMaker:
    """A Maker of texts. field: of a row, that has the text."""

    encoder: Encoder
    field: str
    noun: ClassVar[str] = "text"
    marks: ClassVar[Mapping[str, str]] = {}
    # A thousand shards are 64 GB, and what a killed build makes again is seconds.
    shard: ClassVar[int] = 2**26

    @property
    def dtype(self) -> str:
        return self.encoder.dtype

    @property
    def portable(self) -> bool:
        return self.encoder.python is None

    def key(self) -> list[object]:
        """Return what decides the tokens."""
        return [self.field, self.encoder.dump()]

    def __call__(self, parts: Iterable[Part]) -> Iterator[Tokens | Bad]:
        """Yield the documents of parts, and the rows that are none. Raises UserError."""
        begin, end = (np.array(ids, self.dtype) for ids in (self.encoder.begin, self.encoder.end))
        going = False  # whether a document has begun
        for batch in self._batches(parts):
            if isinstance(batch, Bad):
                yield batch
                continue
            for ids, text in zip(self.encoder([x.text for x in batch]), batch, strict=True):
                if len(ids) and not going:
                    yield Tokens(begin, None, None)
                    going = True
                empty = text.ends is not None and not going
                yield Tokens(ids, None, None, empty=empty)
                if text.ends is not None and going:
                    yield Tokens(end[: len(end) * text.ends], None, text.ends)
                    going = False

    def _batches(self, parts: Iterable[Part]) -> Iterator[list[Text] | Bad]:
        """Yield texts, about BATCH characters at a time, and the rows that are none, which may come earlier."""
        batch: list[Text] = []
        size = 0
        for item in (item for part in parts for item in read_texts(part, self.field)):
            if isinstance(item, Bad):
                yield item
                continue
            batch.append(item)
            size += len(item.text)
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        yield batch


def read_texts(part: Part, field: str) -> Iterator[Text | Bad]:
    """Yield the texts of a part, and the rows that are none. Raises UserError."""
    if format_of(part.file) == "text":
        yield from _read_text(part)
        return
    for row in read_rows(part, field):
        fault = row.fault or _fault(row.value, field)
        yield Bad(part, row.at, fault) if fault else Text(row.value[field], True)


def _read_text(part: Part) -> Iterator[Text | Bad]:
    """Yield the lines that begin in a part, BLOCK bytes at a time. The whole file is one document."""
    with open(part.file, "rb") as file:
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


def _fault(row: Any, field: str) -> str | None:
    """Return why a row has no text in its field; None where it has."""
    if not isinstance(row, dict):
        return f"is {_name(row)}, and not an object with {field!r}"
    if field not in row:
        return f"has no {field!r}, but {few(row) or 'nothing'}: --text-field names another"
    if not isinstance(row[field], str):
        return f"has {_name(row[field])} in {field!r}, and no text"
    return None


def _name(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null"}
    return names.get(type(value).__name__, f"the value {value!r}")
