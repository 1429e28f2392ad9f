"""What this process is busy with, how long that may take, and what a long wait says of itself."""

import math
import os
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

LEAST = 300.0  # seconds: the least deadline of a step, unless one is set
SLOWEST = 20  # medians of a step: what a slow disk or a retry of the network adds stays well below
SILENCE = 120.0  # seconds: swap, a live migration, a file system that hangs for a while take less
LONG = 3600.0  # seconds, for what has no measure of its own: a compilation, a save, a prediction
SLOW = 50e6  # bytes a second to a file system or of it: what holds more than 180 GB may take longer than LONG
MOST_AGE = 600.0  # seconds of a process before this is imported: it is a program, and no notebook
STARTING = (  # in this order
    *("its start", "a wait for the work folder of all", "its data", "a wait for the data of all"),
    *("its weights", "a compilation", "a wait for the compilations of all", "its first step"),
)
STEPPING = ("the examples", "the devices", "the loop")  # of a step, in its order; it waits for two
EVERY = 30.0  # seconds between two lines
MOVES = 1.0  # seconds between two moves of a bar
LINE = "{desc}: {percentage:.0f}% of {total_fmt}{unit}, {elapsed}, {remaining} left"
ENDLESS = "{desc}: {elapsed} so far"  # of what nobody knows the end of


@dataclass(frozen=True)
class Doing:
    """One thing that the main thread does, and since when."""

    what: str = "its start"
    step: int = 0  # steps done before it
    since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it takes so far."""
        return time.monotonic() - self.since

    @property
    def place(self) -> tuple[int, int]:
        """How far the process is, for a comparison: what is no part of a step comes after all of it."""
        order = (*STARTING, *STEPPING)
        return self.step, order.index(self.what) if self.what in order else len(order)

    def __str__(self) -> str:
        return f"{self.what} of step {self.step}" if self.what in STEPPING else self.what


def age() -> float:
    """Return for how many seconds this process has been there; 0 where the system does not say."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return 0.0
    return seconds if 0 < seconds < MOST_AGE else 0.0


class Progress:
    """What the main thread says of itself, for a thread that looks at it."""

    def __init__(self) -> None:
        self.doing = Doing(since=time.monotonic() - age())
        self._spent = dict.fromkeys(STEPPING, 0.0)  # seconds, of what has ended
        self.ended: Callable[[Doing, float], None] = lambda doing, seconds: None  # called with each
        self.silence = SILENCE  # seconds after which a process of which nothing is heard is lost
        self.size = 0.0  # bytes of a process's share of a checkpoint
        self._limit = math.inf  # seconds of a step; 0 for what follows from those so far
        self._steps = deque[float](maxlen=100)  # seconds of the last ones

    def at(self, what: str, step: int = 0) -> None:
        """Take what begins now, and with it its deadline."""
        before, self.doing = self.doing, Doing(what, step)
        seconds = self.doing.since - before.since
        if before.what == "the devices":
            self._steps.append(seconds)
        if before.what in self._spent:
            self._spent[before.what] += seconds
        self.ended(before, seconds)

    def shares(self) -> tuple[float, float]:
        """Return the seconds that steps took so far: the host itself, and waiting for the devices."""
        spent = self._spent.copy()  # before what goes on: counting that twice would be an outlier
        if (doing := self.doing).what in spent:
            spent[doing.what] += doing.seconds
        devices = spent["the devices"]
        return sum(spent.values()) - devices, devices

    @contextmanager
    def deadlines(self, step_timeout: float, silence: float = SILENCE) -> Iterator[None]:
        """Give deadlines to what is done within; outside there are none, as in an idle notebook.

        step_timeout: seconds of a step; 0: SLOWEST medians of those so far, LEAST seconds at least.
        What is no step may take as long, and LONG at least, or as a checkpoint does at SLOW.
        """
        before = self._limit, self.silence
        self._limit, self.silence = step_timeout, silence
        try:
            yield
        finally:
            self._limit, self.silence = before

    def deadline(self) -> float:
        """Return how many seconds what the process does now may take."""
        step = self._limit or max(LEAST, SLOWEST * statistics.median(self._steps or [0.0]))
        return step if self.doing.what in STEPPING else max(step, LONG, self.size / SLOW)


PROGRESS = Progress()  # of this process, as it has one main thread


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Says, in `with`, how far something is, and how long it still takes.

    what: it. total: how much there is of it, of which `done` is done before; 0 where nobody knows.
    unit: what is counted; "B" are bytes. shown: whether this process says it.
    """

    def __init__(
        self, what: str, total: int = 0, unit: str = "", done: int = 0, shown: bool = True
    ) -> None:
        self._what, self._total, self._shown = what, total or None, shown
        self._before = self._done = done
        self._about = {"unit": unit if unit == "B" else f" {unit}", "unit_scale": True}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress bar", daemon=True)

    def __enter__(self) -> "ProgressBar":
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._shown:
            self._thread.join()

    def update(self, count: int) -> None:
        """Count what has been done since."""
        self._done += count

    def _show(self) -> None:
        about = {"total": self._total, "initial": self._before, **self._about}
        if not sys.stderr.isatty():
            about |= {"prefix": self._what, "bar_format": LINE if self._total else ENDLESS}
            since = time.monotonic()
            while not self._over.wait(EVERY):
                elapsed = time.monotonic() - since
                line = tqdm.format_meter(self._done, elapsed=elapsed, **about)
                print(line, file=sys.stderr)
            return
        about |= {} if self._total else {"bar_format": "{desc} {elapsed}"}
        with tqdm(desc=self._what, dynamic_ncols=True, **about) as bar:
            while not self._over.wait(MOVES):
                bar.update(self._done - bar.n)
                bar.refresh()
            bar.update(self._done - bar.n)
