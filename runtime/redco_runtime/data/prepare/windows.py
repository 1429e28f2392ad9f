"""Sources that are read as they come: in windows that have a number before anything is read, so that each process makes its own."""

import threading
from bisect import bisect_right
from functools import lru_cache
from collections.abc import Iterator, Mapping
from heapq import heapify, heapreplace
from itertools import islice
from math import ceil, gcd
from typing import Any

from ...base.messages import feature
from ...base.files import path_of
from ..text.documents import Bad, Maker, Part, Shape, Tokens
from ..text.in_memory import pack
from ..text.sources import Source, check_bad
from .formats import (
    FORMATS,
    Format,
    Rows,
    describe,
    find_format,
    format_of,
    is_array,
    read_documents,
    read_rows,
)

FIRST = 1024  # rows, about, of which a share is held out
# Of a window: bytes of lines that make a token, and rows of a data set that make a row of tokens, about.
BYTES, DOCUMENTS = 4, 4
STREAM = "stream:"  # how the name of a table begins that is read as it comes
_READING = threading.local()  # such a name -> (place, its rows from there on)
SIZES: dict[str, int] = {}  # rows of those that were read to their end


def windows(
    maker: Maker,
    sources: list[Source],
    shape: Shape,
    rows: int,
    batch: int,
    places: Mapping[int, tuple[int, int]],
) -> Iterator[dict[str, Any]]:
    """Yield the windows of some places of a batch, in order; there is an end where none has a row. Raises UserError, which names files and lines.

    Place p has the windows p, p + batch, p + 2 batch and so on of epochs laid end to end. An epoch counts as so many
    windows more that it has no divisor with `batch`: then each place comes round to each window.
    shape: of rows. A share is held out of the FIRST ones, the same in all processes: up to half of some windows.
    rows: of a window, about. places: of each the epoch, and the number in it, of the window to begin with.
    """
    numbered = _Numbered(sources, rows, shape)
    first = min(max(1, FIRST // rows), numbered.count(sized=True) or FIRST)
    apart = min(first, ceil(2 * shape.held_out * first))
    share = shape.held_out * first / max(1, apart)
    heap = [(*at, place) for place, at in places.items()]
    heapify(heap)
    idle = 0  # steps without a row, one after the other
    while True:
        epoch, number, place = heap[0]
        documents = numbered.documents(maker, number)
        length = numbered.count()  # which may be known only now
        while length is not None and gcd(length, batch) > 1:
            length += 1
        idle = 0 if documents else idle + 1
        if length is not None and idle > 2 * len(heap) * (length + batch):
            return
        if length is not None and number >= length:
            heapreplace(heap, (epoch + 1, number - length, place))
            continue
        heapreplace(heap, (epoch, number + batch, place))
        if documents:
            own = shape._replace(held_out=share if number < apart else 0.0)
            index, arrays = pack(documents, maker, own, number)
            at = {"place": place, "epoch": epoch, "number": number, "apart": number < apart}
            yield {**at, "index": index, "arrays": arrays}


class _Numbered:
    """The windows of sources, end to end. rows: of a window, about."""

    def __init__(self, sources: list[Source], rows: int, shape: Shape) -> None:
        self._files = [(source, file) for source in sources for file in source.files]
        self._size, self._most = (rows, shape.sequence_length), shape.skip_bad_rows
        self._ends: list[int] = []  # of the windows of each file, as far as that is known
        self._bad: dict[Source, dict[str, None]] = {}

    def count(self, sized: bool = False) -> int | None:
        """Return how many there are, None where that is not known. sized: of files alone, which are known from the first."""
        if sized and any(file.startswith("hf:") for _, file in self._files):
            return None
        for _, file in self._files[len(self._ends) :]:
            if (count := count_windows(file, *self._size)) is None:
                return None
            self._ends.append(count + (self._ends[-1] if self._ends else 0))
        return self._ends[-1]

    def documents(self, maker: Maker, number: int) -> list[Tokens]:
        """Return the documents of one; none where it has none, or there is none of that number. Raises UserError."""
        while self.count() is None or number < self._ends[-1]:
            at = bisect_right(self._ends, number)
            (source, file), first = self._files[at], self._ends[at - 1] if at else 0
            sized = at < len(self._ends)
            documents = [*self._good(source, maker, window_of(file, number - first, *self._size))]
            self.count()
            if documents or sized or at == len(self._ends):
                return documents
        return []

    def _good(self, source: Source, maker: Maker, part: Part) -> Iterator[Tokens]:
        bad = self._bad.setdefault(source, {})
        for item in read_documents(maker, [part]):
            if not isinstance(item, Bad):
                yield item
                continue
            bad.setdefault(describe(item))  # once, though each epoch has it
            check_bad(source, [*bad], len(bad), self._most)


def count_windows(file: str, rows: int, length: int) -> int | None:
    """Return how many windows of so many rows of so many tokens a file has, about; None of a data set that was not read to its end."""
    if format_of(file) == "hf":
        count = SIZES.get(STREAM + file)
        return None if count is None else ceil(count / (DOCUMENTS * rows))
    return ceil(path_of(file).stat().st_size / (BYTES * rows * length))


def window_of(file: str, number: int, rows: int, length: int) -> Part:
    """Return one of these windows: bytes of lines, or rows of a table. Raises UserError."""
    kind, size, ends = format_of(file), BYTES * rows * length, (number, number + 1)
    if kind == "hf":
        start, stop = (DOCUMENTS * rows * end for end in ends)
        return Part(STREAM + file, start, stop, size)
    lines = kind == "text" or (kind == "json" and not is_array(file))
    whole = path_of(file).stat().st_size if lines else _count(file)
    start, stop = (whole * end // (count_windows(file, rows, length) or 1) for end in ends)
    return Part(file if lines else STREAM + file, start, stop, size)


@lru_cache(1)
def _count(file: str) -> int:
    """Return how many rows a table has."""
    kind = format_of(file)
    if kind != "json":
        return int(feature("tables", "data.prepare.tables", f"--data: {file}").COUNTS[kind](file))
    return sum(1 for part in find_format(file).split(file) for _ in read_rows(part))


def _rows(part: Part, column: str) -> Rows:
    """Yield rows of a table by their numbers: it stays open, for a part that is further on, as most are."""
    at, rows = _READING.__dict__.pop(part.file, (-1, None))
    if anew := rows is None or at > part.start:
        at, rows = part.start, _open(part.file, part.start, column)
    while at < part.stop:
        if (row := next(rows, None)) is None:
            if anew and at == part.start:  # opened behind its end, of which that says nothing
                at = sum(1 for _ in _open(part.file, 0, column))
            SIZES[part.file] = at
            return
        at += 1
        if at > part.start:
            yield row
    _READING.__dict__[part.file] = at, rows


def _open(name: str, start: int, column: str) -> Rows:
    file = name.removeprefix(STREAM)
    if format_of(file) == "hf":
        tables = feature("tables", "data.prepare.tables", f"--data: {file}")
        rows: Rows = tables.rows_of_dataset(file, start)
        return rows
    some = (row for part in find_format(file).split(file) for row in read_rows(part, column))
    return islice(some, start, None)


def _where(name: str, at: int) -> str:
    file = name.removeprefix(STREAM)
    return find_format(file).where(file, at)


FORMATS["stream"] = Format(lambda _: [], _rows, _where)
