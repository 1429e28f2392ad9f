"""What a long wait says of itself: on a terminal a bar that moves each second, elsewhere a line each half minute."""

import sys
import threading
import time
from contextlib import AbstractContextManager

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines
MOVES = 1.0  # seconds between two moves of a bar


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Says, in `with`, how far something is, and how long it still takes.

    what: it. total: how much there is of it, of which `done` is done before; 0 where nobody knows.
    unit: what is counted; "B" are bytes. shown: whether this process says it.
    """

    def __init__(
        self, what: str, total: int = 0, unit: str = "", done: int = 0, shown: bool = True
    ) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._before = self._done = done
        self._since = time.monotonic()
        self._over = threading.Event()
        self._shown, self._terminal = shown, sys.stderr.isatty()

    def __enter__(self) -> "ProgressBar":
        if self._shown:
            thread = threading.Thread(target=self._show, name="progress bar", daemon=True)
            thread.start()
            self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._shown:
            self._thread.join()

    def update(self, count: int) -> None:
        """Count what has been done since."""
        self._done += count

    def _show(self) -> None:
        if not self._terminal:
            while not self._over.wait(EVERY):
                print(self.line(), file=sys.stderr)
            return
        settings = {"unit": self._unit or "it", "unit_scale": True, "dynamic_ncols": True}
        if not self._total:
            settings["bar_format"] = "{desc} {elapsed}"
        with tqdm(None, self._what, self._total or None, initial=self._before, **settings) as bar:
            while not self._over.wait(MOVES):
                bar.update(self._done - bar.n)
                bar.refresh()
            bar.update(self._done - bar.n)

    def line(self) -> str:
        """Return how far it is, in a line."""
        seconds = time.monotonic() - self._since
        if not self._total:
            return f"{self._what}: {tqdm.format_interval(seconds)} so far"
        here, size = self._done - self._before, tqdm.format_sizeof
        left = (self._total - self._done) * seconds / here if here else 0
        ends = f", {tqdm.format_interval(left)} left" if left else ""
        return (
            f"{self._what}: {self._done / self._total:.0%} of {size(self._total)}"
            f"{'' if self._unit == 'B' else ' '}{self._unit}, {tqdm.format_interval(seconds)}{ends}"
        )
