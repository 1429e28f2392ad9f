"""The rows of a source, read through memory maps, or in memory."""

import json
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base.examples import Arrays

FILES = 4  # of a shard that are read
GROUP = 128  # shards of a folder, which have 7 files each with one layout, and 3 with each further


class Shard(NamedTuple):
    """The arrays of a shard."""

    tokens: "np.ndarray | Stored"  # ids
    pieces: "np.ndarray | Stored"  # (first token, length) of each
    rows: "np.ndarray | Stored"  # where each row begins in these
    marks: "Mapping[str, np.ndarray | Stored]"  # of the tokens, by their name

    def row(self, number: int, length: int, packed: bool) -> Arrays:
        """Return a row of `length` tokens, as `Rows` says."""
        first, last = self.rows[number : number + 2].tolist()
        pieces = self.pieces[first:last].tolist()
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
    parent, layout, marks = str(file.parent), index["layout"], index["marks"].items()
    name = index.get("folder", "")  # which older ones lack

    @lru_cache(_allow_open(len(index["rows"])))
    def load(number: int) -> Shard:
        path = f"{folder_of(parent, name, number)}/{number:05d}"
        return Shard(
            Stored(f"{path}.tokens", index["dtype"]),
            Stored(f"{path}.{layout}.pieces.npy", "int64", 2),
            Stored(f"{path}.{layout}.rows.npy", "int64"),
            {name: Stored(f"{path}.marks", kind) for name, kind in marks},
        )

    return Rows(index, load)


def folder_of(parent: Any, name: str, number: int) -> Any:
    """Return the folder of a shard: of one of the first GROUP, and so on; of an older index, without a name, its own."""
    return type(parent)(f"{parent}/{name}-{number // GROUP:03d}") if name else parent


class Stored:
    """An array in a file, whose slices are read: a map holds its file open too, and Linux lets a process have 65,530.

    width: of its second dim; 1 where it has none.
    """

    def __init__(self, path: str, dtype: str, width: int = 1) -> None:
        self._file = os.open(path, os.O_RDONLY)
        self._width, self.dtype = width, np.dtype(dtype)
        self._size = width * self.dtype.itemsize
        # Of a .npy the bytes 8 and 9 are the length of what says its dtype and shape, which are known here.
        npy = path.endswith(".npy")
        self._offset = 10 + int.from_bytes(os.pread(self._file, 2, 8), "little") if npy else 0

    def __getitem__(self, at: slice) -> np.ndarray:
        count, offset = (at.stop - at.start) * self._size, self._offset + at.start * self._size
        flat = np.frombuffer(os.pread(self._file, count, offset), self.dtype)
        return flat if self._width == 1 else flat.reshape(-1, self._width)

    def __del__(self) -> None:
        os.close(self._file)


def _allow_open(shards: int) -> int:
    """Return how many of so many shards may be open at once; raise the limit of open files of this process for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * FILES * shards  # half of the limit is for all else
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return soft // (2 * FILES)
    return shards
