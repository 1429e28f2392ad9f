"""The rows of a source, read through memory maps, or in memory."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base.examples import Arrays

# Shards that are open at once, of four maps each: Linux lets a process have 65,530 maps.
OPEN = 4096


class Shard(NamedTuple):
    """The arrays of a shard.

    tokens: ids.
    pieces: (first token, length) of each.
    rows: where each row begins in these.
    marks: of the tokens, by their name.
    """

    tokens: np.ndarray
    pieces: np.ndarray
    rows: np.ndarray
    marks: Mapping[str, np.ndarray]

    def row(self, number: int, length: int, packed: bool) -> Arrays:
        """Return a row of `length` tokens, as `Rows` says."""
        pieces = self.pieces[self.rows[number] : self.rows[number + 1]].tolist()
        ids_S, segments_S = np.zeros((2, length), np.int32)
        marks = {name: np.zeros(length, array.dtype) for name, array in self.marks.items()}
        at = 0
        for segment, (start, count) in enumerate(pieces, 1):
            ids_S[at : at + count] = self.tokens[start : start + count]
            segments_S[at : at + count] = segment
            for name, mark_S in marks.items():
                mark_S[at : at + count] = self.marks[name][start : start + count]
            at += count
        own = {"segments": segments_S} if packed else {"mask": segments_S > 0}
        return {"input_ids": ids_S, **marks, **own}


class Rows(Sequence[Arrays]):
    """The rows to train on of some shards, or those that are held out.

    A row has "input_ids" (S,) int32, the marks of its tokens by their name, and, where documents are packed,
    "segments" (S,) int32: the document of its row that a token is of, from 1; 0 is padding. Where each has
    a row of its own it has "mask" (S,) bool instead.
    index: what Builder writes of them. load: of a shard, by its number.
    """

    def __init__(
        self, index: Mapping[str, Any], load: Callable[[int], Shard], held_out: bool = False
    ) -> None:
        self._index, self._load = index, load
        self._again = int(index.get("again", 0))  # which older ones lack
        self._ends = np.cumsum(index["held_out" if held_out else "rows"])
        self._first = index["rows"] if held_out else [0] * len(self._ends)  # row of a shard

    def held_out(self) -> "Rows":
        """Return those that are held out of the same shards."""
        return Rows(self._index, self._load, held_out=True)

    @property
    def highest(self) -> int:
        """The highest id."""
        return int(self._index["highest"])

    @property
    def apart(self) -> str:
        """What is said of answers that have a document of their own."""
        why = "since the template writes them otherwise once others follow, or by --split-turns"
        return f"; {self._again:,} answers are apart from their chats, {why}" if self._again else ""

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        """Return a row."""
        number = int(np.searchsorted(self._ends, index, side="right"))
        row = index - (self._ends[number - 1] if number else 0) + self._first[number]
        return self._load(number).row(row, self._index["sequence_length"], self._index["packed"])

    def __str__(self) -> str:
        index = self._index
        rows = sum(index["rows"]) + sum(index["held_out"])
        padding = 1 - index["tokens"] / (rows * index["sequence_length"])
        packed = "packed into" if index["packed"] else "padded to"
        marked = "".join(f", {index['marked']:,} of them {name}" for name in index["marks"])
        bad = f"; {count_bad(index):,} bad rows left out" if index["bad"] else ""
        none = index.get("empty", 0)  # which older ones lack
        empty = f"; {none:,} rows without a token left out" if none else ""
        apart = sum(index["held_out"])
        held_out = f", {apart:,} of them held out" if apart else ""
        return (
            f"{index['documents'] - self._again:,} {index['noun']}s of {index['tokens']:,} tokens{marked}, "
            f"{packed} {rows:,} rows of {index['sequence_length']}{held_out}, {padding:.1%} of them padding{bad}{empty}"
            f"{self.apart}"
        )


def count_bad(index: Mapping[str, Any]) -> int:
    """Return how many rows of files were none, of those that an index is of."""
    return len(index["bad"]) + int(index.get("more_bad", 0))  # which older ones lack


def open_rows(file: Path) -> Rows:
    """Return the rows to train on of an index that Builder made."""
    index = json.loads(file.read_text())

    @lru_cache(OPEN)
    def load(number: int) -> Shard:
        path = file.parent / f"{number:05d}"
        tokens = np.memmap(f"{path}.tokens", index["dtype"], "r")
        laid_out = (f"{path}.{index['layout']}.{kind}.npy" for kind in ("pieces", "rows"))
        pieces, rows = (np.load(name, mmap_mode="r") for name in laid_out)
        named = index["marks"].items()
        marks = {name: np.memmap(f"{path}.marks", kind, "r") for name, kind in named}
        return Shard(tokens, pieces, rows, marks)

    return Rows(index, load)


def rows_in_memory(index: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Rows:
    """Return the rows to train on of what `pack` gives."""
    marks = dict(arrays)
    shard = Shard(marks.pop("tokens"), marks.pop("pieces"), marks.pop("rows"), marks)
    return Rows(index, lambda _: shard)
