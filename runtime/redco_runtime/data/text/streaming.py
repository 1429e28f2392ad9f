"""Rows of sources as they are read: tokenized a window at a time, packed within it, and shuffled within it.

Each place of a batch has windows of its own, which only the process makes that trains on its rows.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, takewhile
from typing import Any, NamedTuple

import numpy as np

from ...base.examples import Arrays, Example
from ...base.messages import UserError, announce
from ..batches import prefetch
from ..example_streams import check_share
from ..permutation import permute
from .documents import Maker
from .examples import Mixture, read_examples, say_shared
from .in_memory import rows_in_memory
from .sources import RUNTIME, Source, ask, check_ids, parse_sources, shape_of
from .rows import Rows
from .weighted import block_ends, source_at

# Rows of the windows of a batch together, so that what is near in a file is not so in a run; and of one: of texts of 600
# tokens in the mean, 32 rows of 1,024 are padded by 2.4 %, 8 rows by 8 %, 1,024 by .2 %.
ROWS, LEAST = 1024, 32


class Window(NamedTuple):
    """A window: the place of a batch that has it, its epoch, its number there, and whether some of it is held out."""

    place: int
    epoch: int
    number: int
    apart: bool
    rows: Rows


class Group(NamedTuple):
    """Sources whose windows are numbered end to end. share: of their first rows, which is held out."""

    sources: Sequence[Source]
    settings: Any
    maker: Maker
    vocabulary: int
    share: float

    @property
    def name(self) -> str:
        """What its sources are called."""
        return ", ".join(source.name for source in self.sources)

    def windows(
        self, batch: int = 1, places: Mapping[int, tuple[int, int]] = {0: (0, 0)}
    ) -> Iterator[Window]:
        """Yield the windows of some places of a batch, without end. Raises UserError, which names files and lines.

        places: of each the epoch and the number to begin with.
        """
        answers = ask(
            f"{RUNTIME}.data.prepare.windows",
            self.maker,
            sources=self.sources,
            shape=shape_of(self.settings, self.share),
            rows=max(LEAST, ROWS // batch),
            batch=batch,
            places=places,
        )
        for answer in answers:
            rows = rows_in_memory(answer.pop("index"), answer.pop("arrays"))
            check_ids(self.name, rows.highest, self.vocabulary)
            yield Window(**answer, rows=rows)
        raise UserError(f"--data: {self.name} has no {self.maker.noun} to train on: it is empty")

    def held_out(self) -> list[Rows]:
        """Return the rows that are held out, the same in all processes. Raises UserError where there are none at all."""
        windows = self.windows()
        some = [next(windows)]
        while some[-1].apart and (more := next(windows)).apart and not more.epoch:
            some.append(more)
        return [window.rows.held_out() for window in some]


class _Places:
    """The rows of some places of a batch, of a group. starts: of each its epoch, the number of its window, and its next row there."""

    def __init__(self, group: Group, seed: int, batch: int, starts: Mapping[int, Sequence[int]]):
        self._seed, self.at = seed, {place: [*at] for place, at in starts.items()}
        self._windows = {place: deque[tuple[Window, np.ndarray]]() for place in starts}
        every = group.windows(batch, {place: (at[0], at[1]) for place, at in starts.items()})
        # As many ahead as there are places, since all come to the ends of theirs at about one time.
        self._next = prefetch(lambda _: next(every), count(), len(starts))

    def row(self, place: int) -> Arrays:
        """Return the next row of a place. Raises UserError."""
        at, windows = self.at[place], self._windows[place]
        while not windows or at[2] >= len(windows[0][1]):
            if windows:
                windows.popleft()
                at[2] = 0
                continue
            window = next(self._next)
            size, key = len(window.rows), (self._seed, window.epoch, window.number)
            self._windows[window.place].append((window, permute(np.arange(size), size, *key)))
        window, order = windows[0]
        row: Arrays = window.rows[int(order[at[2]])]
        at[:] = window.epoch, window.number, at[2] + 1
        return row


class TokenStream:
    """The rows to train on of groups of sources, without a length: Placed; an iterator has those of an epoch.

    weights: of the groups, as of a Mixture; none where there is one.
    """

    def __init__(self, groups: Sequence[Group], weights: Sequence[float]) -> None:
        self.groups, self._ends = groups, block_ends(weights or [1])
        self.begin(0, 1, None)

    def begin(self, seed: int, batch_size: int, position: Sequence[Sequence[int]] | None) -> None:
        """Start with the first batch, or after what a position says. Raises UserError."""
        self._seed, self._batch = seed, batch_size
        new = [[place, *[0, place, 0] * len(self.groups)] for place in range(batch_size)]
        at = {place: [place, *rest] for place, *rest in (new if position is None else position)}
        self._starts = [at[place] for place in sorted(at)]  # of which processes may share some
        if [*map(len, self._starts)] != [*map(len, new)]:
            raise UserError(
                "--streaming: each place of a batch has rows of its own, and the last checkpoint is of another --batch-size, of other "
                "weights or of an earlier version: give what it had, or begin in another --workdir with --init of this one"
            )
        self._places = list[_Places]()

    def take(self, step: int, numbers: Iterable[int]) -> list[Arrays]:
        """Return the rows of these places of a batch, the same places each time. Raises UserError."""
        places = [int(number) for number in numbers]
        for number, group in enumerate(self.groups[len(self._places) :]):
            starts = {place: self._starts[place][1 + 3 * number :][:3] for place in places}
            self._places.append(_Places(group, self._seed, self._batch, starts))
        at = [step * self._batch + place for place in places]
        groups = [self._places[source_at(self._ends, self._seed, place)] for place in at]
        return [own.row(place) for own, place in zip(groups, places, strict=True)]

    @property
    def position(self) -> list[list[int]]:
        """Return where these places are, each with its number first: those of all, sorted, are a position."""
        every = [own.at for own in self._places]
        return [[place, *chain(*(one[place] for one in every))] for place in every[0]]

    def __iter__(self) -> Iterator[Arrays]:
        for group in self.groups:
            for window in takewhile(lambda window: not window.epoch, group.windows()):
                yield from window.rows


def stream_examples(
    settings: Any, maker: Maker, vocabulary: int
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of `--data`, made as the sources are read, and the held-out ones: a share of the first thousand.

    Raises UserError.
    """
    sources = parse_sources("--data", settings.data)
    check_share(settings.held_out)
    share = 0.0 if settings.held_out_data else settings.held_out
    weights = [source.weight for source in sources if source.weight is not None]
    groups = [
        Group(own, settings, maker, vocabulary, share)
        for own in ([[source] for source in sources] if weights else [sources])
    ]
    train = TokenStream(groups, weights)
    if settings.held_out_data:
        _, held_out = read_examples(settings, maker, vocabulary, train=False)
        others = parse_sources("--held-out-data", settings.held_out_data)
        # By their paths: nobody waits until the files are read to their end.
        say_shared(sources, others, lambda _, file: os.path.realpath(file))
        return train, held_out
    apart = list[Rows]()
    for group in groups:
        own = group.held_out()
        count, said = sum(map(len, own)), next((rows.apart for rows in own if rows.apart), "")
        announce(f"data: {group.name}: read as it comes, {count} of its first rows held out{said}")
        apart += own
    return train, Mixture(apart)
