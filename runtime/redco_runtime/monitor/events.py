"""What befell a run, an event a line in events.jsonl: every second of a process belongs to one of them; and what they add up to.

Each line has the `time` when it began (seconds since 1970), its `seconds`, and the `step` that the run
had reached; of "restart" `seconds` is the time since the last event before, in which nothing ran. They
add up to the time from the first instruction of the first process to the last of the last one.
"""

import atexit
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.messages import UserError, show
from ..base.files import append_line, cut_lines, is_bucket, path_of, read_lines, send_lines
from ..base.progress import PROGRESS, STARTING, STEPPING, Doing
from ..run.lock import release

FILE = "events.jsonl"
NUMBERS = ("time", "seconds")  # of all lines
# Of what the main thread does: no run is open yet.
BEFORE = STARTING[: STARTING.index("its weights")]
OTHER = "other"  # kind of what has none
OVER = "its end"  # of what the main thread does: the run is over
KINDS = {  # of events, by what the main thread does
    **dict.fromkeys(STARTING, "boot"),
    **dict.fromkeys(("its data", "a wait for the data of all"), "data"),
    "the tokens of its data": "data",
    "the tokens of its data, which another process makes": "data",
    "the examples before this step": "data",
    "a compilation": "compile",
    "a save": "save",
    "the end of a save": "save",
    "an evaluation": "evaluate",
    "a prediction": "evaluate",
    **dict.fromkeys(STEPPING, "steps"),
    OVER: "end",
}
SPAN = 10.0  # seconds of steps in one event, which a kill leaves no line of: 9000 lines a day
LEAST = 0.01  # seconds that are worth an event; fewer count for the next one
EARLY = 100  # events before a work folder is opened: of a start, which has ten
LAST_WORDS = 2.0  # seconds that the event of a fault may take, on a disk that hangs
KEPT, AGAIN, BETWEEN = "steps", "steps made again", "between runs"


class Events:
    """The events of this process; process 0 opens it, and so writes those of the run."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._lock = threading.RLock()
        self._early = deque[dict[str, Any]](maxlen=EARLY)
        self._kind = "boot"  # of what the last seconds went into
        self._seconds, self._steps, self._step = 0.0, 0, 0
        self._closed = False  # so that it says its goodput once
        PROGRESS.ended = self._take
        atexit.register(self.close)

    def open(self, workdir: Path, step: int) -> None:
        """Write from here on to a work folder, whose run goes on at `step`. No fault of it is raised."""
        PROGRESS.at(PROGRESS.doing.what, PROGRESS.doing.step)  # what it was until now has ended
        with self._lock:
            self._finish()
            early, self._early = [*self._early], deque(maxlen=EARLY)
            self._path, self._steps, self._step = path_of(workdir) / FILE, 0, step
            self._closed = False
            try:
                cut_lines(self._path)
                before = read_lines(self._path, *NUMBERS)
            except (OSError, UserError) as error:
                return self._give_up(error)
            began = early[0]["time"] if early else time.time()
            if before:
                last = before[-1]
                waited = max(0.0, began - last["time"] - last["seconds"])
                lost = max(0, last["step"] - step)
                self._write("restart", waited, time.time() - began, lost_steps=lost)
            else:
                self._write("start", 0.0, time.time() - began)
            for record in early:
                self._append({**record, "step": step})

    def end(self, kind: str, text: str) -> None:
        """Write why the process ends, and let go of its work folder.

        Its `seconds` are the time of what it did then, as of what hangs.
        """

        def write() -> None:
            with self._lock:
                doing = PROGRESS.doing
                if self._path and self._kind != "ended":
                    self._finish(doing.seconds)
                    line = text.partition("\n")[0]
                    self._write(kind, doing.seconds, doing=str(doing), text=line)
                    PROGRESS.doing, self._kind = Doing(OVER), "ended"
                self._let_go()
            release()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(LAST_WORDS)

    def add(self, kind: str, text: str) -> None:
        """Write what befell the run, and took no time of its own."""
        with self._lock:
            if self._path:
                self._write(kind, 0.0, text=text)

    def close(self) -> None:
        """Write what the time since went into, as the process ends, and print what all of it did.

        A fault or a signal has the last word itself.
        """
        if self._path and self._path.parent.is_dir():
            last_word = self._closed or self._kind == "ended"
            PROGRESS.at(OVER)
            self._finish()
            self._closed = True
            if not last_word:
                show(str(add_up_events(read_lines(self._path, *NUMBERS))))

    def leave(self) -> None:
        """Write the end, and let go of the work folder, where it is in a bucket: later nothing can be sent."""
        if self._path and is_bucket(self._path):
            self.close()
            self._let_go()
            release()

    def _let_go(self) -> None:
        if self._path and is_bucket(self._path):
            self._path = None
            with suppress(OSError):
                send_lines()

    def _take(self, doing: Doing, seconds: float) -> None:
        """Count what has ended; it is one event with those of its kind beside it."""
        kind = KINDS.get(PROGRESS.doing.what, OTHER)
        with self._lock:
            if self._path and PROGRESS.doing.what in BEFORE:  # another run, in this process
                self._path, self._kind, self._seconds, self._steps = None, kind, 0.0, 0
                self._early.clear()
                return
            self._seconds += seconds
            if doing.what == "the devices" and doing.step >= self._step:
                self._steps, self._step = self._steps + 1, doing.step + 1
            if kind != self._kind or (kind == "steps" and self._seconds > SPAN):
                self._finish()
                self._kind = kind

    def _finish(self, ago: float = 0.0) -> None:
        """Write the event that the last seconds belong to, which has ended so long ago."""
        if self._steps or self._seconds > LEAST:
            steps = {"steps": self._steps} if self._kind == "steps" else {}
            self._write("end" if self._kind == "ended" else self._kind, self._seconds, ago, **steps)
            self._seconds, self._steps = 0.0, 0

    def _write(self, kind: str, seconds: float, ago: float = 0.0, **facts: Any) -> None:
        """Add an event that has ended so many seconds ago."""
        begin = time.time() - ago - seconds
        place = {"time": round(begin, 3), "event": kind, "seconds": round(seconds, 3)}
        self._append({**place, "step": self._step, **facts})

    def _append(self, record: dict[str, Any]) -> None:
        """Write a line, or keep it until there is a work folder."""
        if self._path is None:
            self._early.append(record)
            return
        try:
            append_line(self._path, record)
        except UserError as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._path = None
        print(f"note: {error} The run goes on without {FILE}.", file=sys.stderr)


EVENTS = Events()  # of this process


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
