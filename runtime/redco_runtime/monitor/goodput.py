"""What the time of a run went into, from its events: steps that it has, and all that was not these."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KEPT, AGAIN, BETWEEN = "steps", "steps made again", "between runs"


@dataclass
class Sums:
    """Seconds by cause, which add up to all since the first start, and how often each was.

    `steps` are those that the run has; those after the step that a restart went on from were "made
    again". "between runs" nothing ran; it has steps that a kill left no event of, see events.SPAN.
    """

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    times: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    @property
    def goodput(self) -> float:
        """The share of the time that was spent in steps that the run has."""
        return self.seconds[KEPT] / self.total if self.total else 0.0

    @property
    def headline(self) -> str:
        """What matters most of it."""
        return f"goodput {self.goodput:.1%} of {self.total:.1f} s"

    def __str__(self) -> str:
        shares = (f"{cause} {self.seconds[cause] / self.total:.1%}" for cause in self.causes)
        return f"{self.headline}: {', '.join(shares)}"

    def add(self, cause: str, seconds: float, times: int = 1) -> None:
        """Count what took so long."""
        self.seconds[cause] += seconds
        self.times[cause] += times

    @property
    def causes(self) -> list[str]:
        """What took any time, the longest first, after the steps."""
        causes = (cause for cause, seconds in self.seconds.items() if seconds)
        return sorted(causes, key=lambda cause: (cause != KEPT, -self.seconds[cause]))


def add_up_events(events: Sequence[Mapping[str, Any]]) -> Sums:
    """Return what the time of a run went into."""
    sums, spans = Sums(), list[tuple[int, int, float]]()  # (steps before it, and after it, seconds)
    for event in events:
        cause, seconds, step = event.get("event", "?"), event["seconds"], event["step"]
        if cause == "steps":
            spans.append((step - event.get("steps", 0), step, seconds))
        elif cause == "restart":
            sums.add(BETWEEN, seconds)
            for i, (first, last, spent) in enumerate(spans):
                to = min(last, max(first, step))
                share = (last - to) / (last - first) if last > first else float(first > step)
                lost = share * spent
                spans[i] = first, to, spent - lost
                sums.add(AGAIN, lost, last - to)
        else:
            sums.add(cause, seconds)
    for first, last, spent in spans:
        sums.add(KEPT, spent, last - first)
    return sums
