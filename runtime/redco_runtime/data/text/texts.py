"""Texts to documents: a field of rows, or whole files, a batch at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base.errors import few
from .documents import Bad, Maker, Text, Tokens
from .encoder import Encoder


@dataclass
class TextMaker(Maker):
    """A Maker of texts. field: of a row, that has the text."""

    encoder: Encoder
    field: str
    noun: ClassVar[str] = "text"
    # A thousand shards are 64 GB, and what a killed build makes again is seconds.
    shard: ClassVar[int] = 2**26
    batch: ClassVar[int] = 2**20  # characters: what a process holds is some times that

    @property
    def dtype(self) -> str:
        return self.encoder.dtype

    @property
    def portable(self) -> bool:
        return self.encoder.python is None

    def key(self) -> list[object]:
        return [self.field, self.encoder.dump()]

    def parse(self, row: Any) -> Text:
        if not isinstance(row, dict):
            raise ValueError(f"is {_name(row)}, and not an object with {self.field!r}")
        if self.field not in row:
            there = few(row) or "nothing"
            raise ValueError(f"has no {self.field!r}, but {there}: --text-field names another")
        if not isinstance(row[self.field], str):
            raise ValueError(f"has {_name(row[self.field])} in {self.field!r}, and no text")
        return Text(row[self.field], True)

    def size(self, row: Text) -> int:
        return len(row.text)

    def documents(self, batches: Iterable[list[Text] | Bad]) -> Iterator[Tokens | Bad]:
        """Yield the documents, a long one in parts, and the rows that are none."""
        begin, end = (np.array(ids, self.dtype) for ids in (self.encoder.begin, self.encoder.end))
        going = False  # whether a document has begun
        for batch in batches:
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


def _name(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null"}
    return names.get(type(value).__name__, f"the value {value!r}")
