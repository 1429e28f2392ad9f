"""Documents as tokens: what shards and streams are made of, whatever their rows have."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .encoder import id_dtype

NAMED = 10  # rows that are none, of those that are counted, whose lines are named: a screen of them


class Part(NamedTuple):
    """A part of a file: bytes, groups of rows, or rows from `start` to `stop - 1`; of `size` bytes."""

    file: str
    start: int
    stop: int
    size: int


class Shape(NamedTuple):
    """What decides the rows of documents: the settings of that name, and the share of them that is held out."""

    sequence_length: int
    packing: str
    held_out: float
    skip_bad_rows: int = 0

    @property
    def layout(self) -> str:
        """What the files of such rows are called, after a number: 1024-on-0.05."""
        return f"{self.sequence_length}-{self.packing}-{self.held_out}"


class Text(NamedTuple):
    """A text, or a part of a long one; `ends` as of Tokens."""

    text: str
    ends: bool | None


class Tokens(NamedTuple):
    """A document, or a part of a long one.

    ids: (N,).
    marks: (N,) of each token, where its kind has any.
    ends: whether it ends there, None where it goes on. It is not ended, but cut, where a part of a file ends.
    again: whether it is of the same row of a file as the one before.
    empty: whether it is a row that gives no token, and so no document.
    """

    ids: np.ndarray
    marks: np.ndarray | None
    ends: bool | None
    again: bool = False
    empty: bool = False


class Bad(NamedTuple):
    """A row that is no document: its part of a file, its place there, and why. `describe` says it."""

    part: Part
    at: int
    why: str


class Maker:
    """What makes documents of rows: a dataclass of plain values and a tokenizer, which another process gets as JSON.

    noun: what a document is called.
    marks: what a row calls the marks of its tokens -> their dtype; none where they have none.
    shard: bytes of a shard, the unit that one process makes: some seconds, so that all cores have one.
    batch: how many rows are encoded at once, by their `size`.
    field: the one that has the text, where a file of text has documents too; else "".
    """

    noun: ClassVar[str]
    marks: ClassVar[Mapping[str, str]] = {}
    shard: ClassVar[int] = 2**24
    batch: ClassVar[int] = 1
    field = ""
    tokenizer: Any

    @property
    def dtype(self) -> str:
        """Of ids in a file."""
        return id_dtype(self.tokenizer)

    @property
    def portable(self) -> bool:
        """Whether another process can have it: a tokenizer that is code in Python may be of this program alone."""
        return bool(self.tokenizer.is_fast)

    def key(self) -> list[object]:
        """Return what decides the documents, beside the files."""
        raise NotImplementedError

    def parse(self, row: Any) -> Any:
        """Return what `encode` makes documents of. Raises ValueError, which says why a row is none."""
        raise NotImplementedError

    def size(self, row: Any) -> int:
        """Return what a row counts of a `batch`."""
        return 1

    def encode(self, rows: Iterable[Any]) -> Iterable[Tokens]:
        """Return the documents of a batch of rows, as `parse` gives them, which may be they already."""
        return rows

    def documents(self, batches: Iterable[list[Any] | Bad]) -> Iterator[Tokens | Bad]:
        """Yield the documents of rows, and those that are none, in their order."""
        for batch in batches:
            yield from [batch] if isinstance(batch, Bad) else self.encode(batch)
