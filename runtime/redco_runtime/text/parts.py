"""What files are read by: parts of them, and rows."""

from collections.abc import Iterator
from typing import Any, NamedTuple

RANGE = 2**22  # bytes of a part of a file, about: parts of many files go into one shard alike
NAMED = 10  # rows that are none, of those that are counted, whose lines are named: a screen of them


class Part(NamedTuple):
    """A part of a file: bytes, groups of rows, or rows from `start` to `stop - 1`; of `size` bytes."""

    file: str
    start: int
    stop: int
    size: int


class Row(NamedTuple):
    """A row of a file: its value, its place there, and why it is none, where it cannot be read."""

    value: Any
    at: int
    fault: str = ""


Rows = Iterator[Row]
