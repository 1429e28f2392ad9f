"""Tokens of documents end to end, and what there is of them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from .documents import NAMED, Maker, Shape, Tokens


@dataclass
class Contents:
    """What a shard has.

    documents: how many of them end in it.
    again: how many of these are of the same row of a file as the one before.
    empty: rows of files that give no token.
    tokens: of all of them.
    marked: tokens whose mark is not 0.
    highest: of its ids.
    bad: "FILE, line N WHY" of the first rows that are none.
    more_bad: how many more there are.
    rows: of a layout, those to train on.
    held_out: the others.
    """

    documents: int = 0
    again: int = 0
    empty: int = 0
    tokens: int = 0
    marked: int = 0
    highest: int = 0
    bad: list[str] = field(default_factory=list)
    more_bad: int = 0
    rows: int = 0
    held_out: int = 0

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
