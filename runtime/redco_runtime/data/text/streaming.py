"""Rows of sources as they are read: tokenized a window at a time, packed within it, and shuffled within it."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.examples import Arrays, Example
from ...base.errors import UserError
from ...base.output import announce
from ..example_streams import check_share
from ..iterators import Stream
from ..permutation import permute
from .documents import Maker
from .examples import read_examples, say_shared
from .mixture import Mixture, block_ends, source_at
from .request import RUNTIME, ask
from .rows import Rows, rows_in_memory
from .sources import Source, check_ids, parse_sources, shape_of

# Rows of a window: 4 MB of ids at S = 1024, beside which the part of a file is as large, and enough documents for
# rows that are full. What is near in a file stays near in a run, so files should be shuffled.
WINDOW = 1024


class Window(NamedTuple):
    """A window of a stream: its number in the epoch, and where its first document is.

    part: the number of a part. documents: how many of it are in windows before.
    """

    number: int
    part: int
    documents: int
    rows: Rows


class TokenStream:
    """The training rows of sources end to end, without a length; an iterator of them has a state.

    share: of the first window, which is held out.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        settings: Any,
        maker: Maker,
        vocabulary: int,
        share: float,
    ) -> None:
        self._sources, self._settings, self._maker = sources, settings, maker
        self._vocabulary, self._share = vocabulary, share
        self.key = (0, 0)  # seed, epoch

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Make the next iterator that of an epoch."""
        self.key = seed, epoch

    def __iter__(self) -> "TokenRows":
        return TokenRows(self)

    def windows(self, number: int = 0, part: int = 0, documents: int = 0) -> Iterator[Window]:
        """Yield the windows from one on. Raises UserError, which names files and lines."""
        answers = ask(
            f"{RUNTIME}.data.prepare.windows",
            self._maker,
            sources=self._sources,
            shape=shape_of(self._settings, self._share),
            size=WINDOW * self._settings.sequence_length,
            **{"number": number, "part": part, "documents": documents},
        )
        for answer in answers:
            rows = rows_in_memory(answer.pop("index"), answer.pop("arrays"))
            check_ids(self._sources[0].name, rows.highest, self._vocabulary)
            yield Window(**answer, rows=rows)


class TokenRows(Iterator[Arrays]):
    """The rows of an epoch, in its order. The next window is made while one is read."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream, (self._seed, self._epoch) = stream, stream.key
        self.set_state({"number": 0, "part": 0, "documents": 0, "row": 0})

    def get_state(self) -> dict[str, int]:
        """Return where it is."""
        return {**self._at, "row": self._row}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Return to where an iterator was."""
        self._at = {name: state[name] for name in ("number", "part", "documents")}
        self._windows = self._stream.windows(**self._at)
        self._window: Window | None = None
        self._row = state["row"]

    def __next__(self) -> Arrays:
        while self._window is None or self._row >= len(self._window.rows):
            if self._window is not None:
                self._row = 0
            self._window = next(self._windows)
            self._at = {name: getattr(self._window, name) for name in self._at}
            size, key = len(self._window.rows), (self._seed, self._epoch, self._at["number"])
            self._order = permute(np.arange(size), size, *key)
        self._row += 1
        row: Arrays = self._window.rows[int(self._order[self._row - 1])]
        return row


class StreamMixture(Iterator[Arrays]):
    """The rows of streams by their weights, in the order of a run; each has epochs of its own, so it has no end."""

    def __init__(self, streams: Sequence[TokenStream], weights: Sequence[float]) -> None:
        self._all, self._ends = streams, block_ends(weights)
        self.begin_epoch(0, 0)

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Start with the first row."""
        self._seed, self._place = seed, 0
        self._streams = [Stream(stream, seed, 1) for stream in self._all]

    def get_state(self) -> dict[str, Any]:
        """Return where it is."""
        return {"place": self._place, "streams": [stream.position for stream in self._streams]}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Return to where one was."""
        self._place = state["place"]
        both = zip(self._all, state["streams"], strict=True)
        self._streams = [Stream(stream, self._seed, 1, 0, at) for stream, at in both]

    def __next__(self) -> Arrays:
        number = source_at(self._ends, self._seed, self._place)
        self._place += 1
        (row,) = self._streams[number].take()
        return dict(row)


def stream_examples(
    settings: Any, maker: Maker, vocabulary: int
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of `--data`, made as the sources are read, and the held-out ones: a share of their first window.

    Raises UserError.
    """
    sources = parse_sources("--data", settings.data)
    check_share(settings.held_out)
    share = 0.0 if settings.held_out_data else settings.held_out
    weights = [source.weight for source in sources if source.weight is not None]
    groups = [[source] for source in sources] if weights else [sources]
    streams = [TokenStream(group, settings, maker, vocabulary, share) for group in groups]
    train = StreamMixture(streams, weights) if weights else streams[0]
    if settings.held_out_data:
        _, held_out = read_examples(settings, maker, vocabulary, train=False)
        others = parse_sources("--held-out-data", settings.held_out_data)
        # By their paths: nobody waits until the files are read to their end.
        say_shared(sources, others, lambda _, file: os.path.realpath(file))
        return train, held_out
    first = [next(stream.windows(), None) for stream in streams]
    for group, window in zip(groups, first, strict=True):
        names = ", ".join(source.name for source in group)
        if window is None or not len(window.rows):
            raise UserError(f"--data: {names} has no {maker.noun} to train on: it is empty")
        announce(
            f"data: {names}: read as it comes, {len(window.rows.held_out())} of its first rows held out"
            f"{window.rows.apart}"
        )
    return train, Mixture([window.rows.held_out() for window in first if window])
