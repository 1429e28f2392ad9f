"""Documents as tokens, end to end: what shards and streams are made of, whatever their rows have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np

from ..tokenizer import id_dtype

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
    """A document, or a part of a long one."""

    ids: np.ndarray  # (N,)
    marks: np.ndarray | None  # (N,) of each token, where its kind has any
    ends: (
        bool | None
    )  # whether it ends there, None where it goes on; cut by the end of a part: False
    again: bool = False  # whether it is of the same row of a file as the one before
    empty: bool = False  # whether it is a row that gives no token, and so no document


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


@dataclass
class Contents:
    """What a shard has."""

    documents: int = 0  # that end in it
    again: int = 0  # of these, those of the same row of a file as the one before
    empty: int = 0  # rows of files that give no token
    tokens: int = 0
    marked: int = 0  # of the tokens, those whose mark is not 0
    highest: int = 0  # of its ids
    bad: list[str] = field(
        default_factory=list
    )  # "FILE, line N WHY" of the first rows that are none
    more_bad: int = 0  # how many more there are
    rows: int = 0  # of a layout, those to train on
    held_out: int = 0  # the others

    @property
    def bad_rows(self) -> int:
        """How many rows are none."""
        return len(self.bad) + self.more_bad


def write_documents(
    documents: Iterable[Tokens], contents: Contents, tokens: BinaryIO, marks: BinaryIO | None
) -> Iterator[int]:
    """Write ids and marks; yield how many tokens each document has, and count in `contents`."""
    length = 0  # tokens of the document that goes on
    for ids, marks_N, ends, again, empty in documents:
        contents.empty += empty
        tokens.write(ids.tobytes())
        length += len(ids)
        contents.highest = max(contents.highest, int(ids.max(initial=0)))
        if marks and marks_N is not None:
            marks.write(marks_N.tobytes())
            contents.marked += int(np.count_nonzero(marks_N))
        if ends is not None and length:
            contents.documents += ends
            contents.again += again
            contents.tokens += length
            yield length
            length = 0


def index_of(parts: Sequence[Contents], maker: Maker, shape: Shape) -> dict[str, Any]:
    """Return what `Rows` says of shards, by what each has."""
    bad = [row for one in parts for row in one.bad]
    named = bad[:NAMED]
    names = ("documents", "again", "empty", "tokens", "marked")
    sums = {name: sum(getattr(one, name) for one in parts) for name in names}
    return {
        "layout": shape.layout,
        "noun": maker.noun,
        "dtype": maker.dtype,
        "marks": maker.marks,
        "sequence_length": shape.sequence_length,
        "packed": shape.packing == "on",
        **sums,
        "highest": max((one.highest for one in parts), default=0),
        "bad": named,
        "more_bad": sum(one.bad_rows for one in parts) - len(named),
        "rows": [one.rows for one in parts],
        "held_out": [one.held_out for one in parts],
    }
