"""What this process is busy with, and how long that may take."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

LEAST = 300.0  # seconds: the least deadline of a step, unless one is set
SLOWEST = 20  # medians of a step: what a slow disk or a retry of the network adds stays well below
LONG = 3600.0  # seconds, for what has no measure of its own: a compilation, a save, a prediction
STEPPING = ("the examples", "the devices", "the loop")  # of a step, in its order; it waits for two


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

    def __str__(self) -> str:
        return f"{self.what} of step {self.step}" if self.what in STEPPING else self.what


class Progress:
    """What the main thread says of itself, for a thread that looks at it."""

    def __init__(self) -> None:
        self.doing = Doing()
        self._spent = dict.fromkeys(STEPPING, 0.0)  # seconds, of what has ended
        self.ended: Callable[[Doing, float], None] = lambda doing, seconds: None  # called with each
        self.limited = (
            False  # whether there are deadlines: in the loop, and not in an idle notebook
        )
        self._limit = 0.0
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

    def limit_steps(self, seconds: float) -> None:
        """Make the deadline of a step this; 0: SLOWEST medians of those so far, LEAST seconds at least."""
        self._limit = seconds

    def deadline(self) -> float:
        """Return how many seconds what the process does now may take."""
        if not self.limited:
            return math.inf
        usual = statistics.median(self._steps) if self._steps else 0.0
        step = self._limit or max(LEAST, SLOWEST * usual)
        return step if self.doing.what in STEPPING else max(step, LONG)


PROGRESS = Progress()  # of this process, as it has one main thread
