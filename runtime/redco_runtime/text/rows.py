"""The rows of a source, read through memory maps."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from redco_runtime.contracts import Arrays

# Shards that are open at once, of three maps each: Linux lets a process have 65,530 maps.
OPEN = 4096


class Shard(NamedTuple):
    """The maps of a shard: ids; (first token, length) of each piece; where each row begins in these."""

    tokens: np.ndarray
    pieces: np.ndarray
    rows: np.ndarray


class Rows(Sequence[Arrays]):
    """The rows to train on of a folder that Builder made, or those that are held out."""

    def __init__(self, folder: Path, held_out: bool = False) -> None:
        index = json.loads((folder / "index.json").read_text())
        self.folder, self._index = folder, index
        self._length, self._packed = index["sequence_length"], index["packed"]
        self._ends = np.cumsum(index["held_out" if held_out else "rows"])
        self._first = index["rows"] if held_out else [0] * len(self._ends)  # row of a shard

        @lru_cache(OPEN)
        def load(number: int) -> Shard:
            path = folder / f"{number:05d}"
            tokens = np.memmap(f"{path}.tokens", index["dtype"], "r")
            pieces, rows = (np.load(f"{path}.{k}.npy", mmap_mode="r") for k in ("pieces", "rows"))
            return Shard(tokens, pieces, rows)

        self._load = load

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        """Return a row, as `text_examples` says."""
        number = int(np.searchsorted(self._ends, index, side="right"))
        shard = self._load(number)
        row = index - (self._ends[number - 1] if number else 0) + self._first[number]
        pieces = shard.pieces[shard.rows[row] : shard.rows[row + 1]].tolist()
        ids_S, segments_S = np.zeros((2, self._length), np.int32)
        at = 0
        for segment, (start, count) in enumerate(pieces, 1):
            ids_S[at : at + count] = shard.tokens[start : start + count]
            segments_S[at : at + count] = segment
            at += count
        return {"input_ids": ids_S} | (
            {"segments": segments_S} if self._packed else {"mask": segments_S > 0}
        )

    def __str__(self) -> str:
        index = self._index
        rows = sum(index["rows"]) + sum(index["held_out"])
        padding = 1 - index["tokens"] / (rows * self._length)
        packed = "packed into" if self._packed else "padded to"
        bad = f"; {len(index['bad'])} bad rows left out" if index["bad"] else ""
        held_out = (
            f", {sum(index['held_out']):,} of them held out" if any(index["held_out"]) else ""
        )
        return (
            f"{index['texts']:,} texts of {index['tokens']:,} tokens, {packed} {rows:,} rows of "
            f"{self._length}{held_out}, {padding:.1%} of them padding{bad}"
        )
