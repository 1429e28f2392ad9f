"""What befell a run, an event a line in events.jsonl: every second of a process belongs to one of them.

Each line has the `time` when it began (seconds since 1970), its `seconds`, and the `step` that the run
had reached; of "restart" `seconds` is the time since the last event before, in which nothing ran.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from redco_runtime.errors import UserError
from redco_runtime.lines import append_line, cut_lines, read_lines
from redco_runtime.lock import release
from redco_runtime.progress import PROGRESS, STARTING, STEPPING, Doing

FILE = "events.jsonl"
NUMBERS = ("time", "seconds")  # of all lines
KINDS = {  # of events, by what the main thread does
    **dict.fromkeys(STARTING, "boot"),
    "a compilation": "compile",
    "a save": "save",
    "the end of a save": "save",
    "an evaluation": "evaluate",
    "a prediction": "evaluate",
    **dict.fromkeys(STEPPING, "steps"),
}
SPAN = (
    10.0  # seconds of steps in one event, which a kill leaves no line of: at most 9000 lines a day
)
LEAST = 0.01  # seconds that are worth an event
LAST_WORDS = (
    2.0  # seconds that the event of a fault may take: a disk that hangs must not keep it alive
)


class Events:
    """The events of this process; process 0 opens it, and so writes those of the run."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._lock = threading.RLock()
        self._kind: str | None = "boot"  # of what the last seconds went into; None for no event
        self._seconds, self._steps, self._step = 0.0, 0, 0
        PROGRESS.ended = self._take

    def open(self, workdir: Path, step: int) -> None:
        """Write from here on to a work folder, whose run goes on at `step`. No fault of it is raised."""
        with self._lock:
            self._path, self._steps, self._step = Path(workdir) / FILE, 0, step
            try:
                cut_lines(self._path)
                before = read_lines(self._path, *NUMBERS)
            except (OSError, UserError) as error:
                return self._give_up(error)
            boot = PROGRESS.doing.seconds + (self._seconds if self._kind == "boot" else 0.0)
            if not before:
                return self._write("start", 0.0, boot)
            last = before[-1]
            waited = max(0.0, time.time() - boot - last["time"] - last["seconds"])
            self._write("restart", waited, boot, lost_steps=max(0, last["step"] - step))

    def end(self, kind: str, text: str) -> None:
        """Write why the process ends, and let go of its work folder.

        Its `seconds` are the time of what it did then, as of what hangs.
        """

        def write() -> None:
            with self._lock:
                doing = PROGRESS.doing
                seconds = doing.seconds if doing.what in KINDS else 0.0
                self._finish(seconds)
                self._write(kind, seconds, doing=str(doing), text=text.partition("\n")[0])
                self._path = None
            release()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(LAST_WORDS)

    def _take(self, doing: Doing, seconds: float) -> None:
        """Count what has ended; it is one event with those of its kind beside it."""
        kind = KINDS.get(PROGRESS.doing.what)
        with self._lock:
            self._seconds += seconds
            if doing.what == "the devices" and doing.step >= self._step:
                self._steps, self._step = self._steps + 1, doing.step + 1
            if kind != self._kind or (kind == "steps" and self._seconds > SPAN):
                self._finish()
                self._kind = kind

    def _finish(self, ago: float = 0.0) -> None:
        """Write the event that the last seconds belong to, which has ended so long ago."""
        if self._kind and (self._steps or self._seconds > LEAST):
            steps = {"steps": self._steps} if self._kind == "steps" else {}
            self._write(self._kind, self._seconds, ago, **steps)
        self._seconds, self._steps = 0.0, 0

    def _write(self, kind: str, seconds: float, ago: float = 0.0, **facts: Any) -> None:
        """Add an event that has ended so many seconds ago."""
        if self._path:
            begin = time.time() - ago - seconds
            place = {"time": round(begin, 3), "event": kind, "seconds": round(seconds, 3)}
            try:
                append_line(self._path, {**place, "step": self._step, **facts})
            except UserError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._path = None
        print(f"note: {error} The run goes on without {FILE}.", file=sys.stderr, flush=True)


EVENTS = Events()  # of this process
