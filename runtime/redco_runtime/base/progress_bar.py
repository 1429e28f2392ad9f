"""What a long wait says of itself: on a terminal a bar that moves each second, elsewhere a line each half minute."""

import sys
import threading
import time
from contextlib import AbstractContextManager

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines
MOVES = 1.0  # seconds between two moves of a bar
LINE = "{desc}: {percentage:.0f}% of {total_fmt}{unit}, {elapsed}, {remaining} left"
ENDLESS = "{desc}: {elapsed} so far"  # of what nobody knows the end of


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
