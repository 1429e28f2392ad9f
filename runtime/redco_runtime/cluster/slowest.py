"""Which process holds the others up: the one whose host is slow at its part of the steps.

A step ends for all at once, so its time says nothing of any one process. What differs is how long
the host of each waits for the devices: the one that all wait for waits least. A device that is itself
slow makes all hosts wait alike, and is not seen here.
"""

from collections.abc import Mapping
from statistics import median_low

WINDOW = 60.0  # seconds that are compared
FACTOR = 1.5  # of the median
LEAST = 0.1  # share of the window: what is lost below it is not worth a line

Share = tuple[float, float]  # seconds since the start: of the host itself, and waiting for devices


class Slowest:
    """Called at the end of each window with the shares of all processes, by index."""

    def __init__(self) -> None:
        self._before: Mapping[int, Share] = {}
        self._last: int | None = None

    def __call__(self, shares: Mapping[int, Share], seconds: float) -> tuple[int, str] | None:
        """Return the process that has become the slowest of the last `seconds`, and how slow it is."""
        before, self._before = self._before, dict(shares)
        both = shares.keys() & before.keys()
        own = {i: shares[i][0] - before[i][0] for i in both}
        devices = min((shares[i][1] - before[i][1] for i in both), default=0.0)
        time = {i: own[i] + devices for i in both}  # that it would take if it waited for no other
        slow = max(both, key=lambda i: time[i], default=None)
        usual = median_low(time.values()) if time else 0.0
        if slow is None or time[slow] < max(FACTOR * usual, usual + LEAST * seconds):
            self._last = None
            return None
        last, self._last = self._last, slow
        text = (
            f"is the slowest: its host took {own[slow]:.1f} s of the last {seconds:.0f} s for its "
            f"examples and its part of the loop, the median process {median_low(own.values()):.1f} s"
        )
        return (slow, text) if slow != last else None
