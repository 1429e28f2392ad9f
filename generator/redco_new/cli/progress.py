"""What redco is doing: on a terminal as it changes, elsewhere, such as in a log, a line each half minute."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

EVERY = 30.0  # seconds between two lines


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Yield a function that is told what is being done, which this shows.

    On the standard error of now: what a class of the user's prints meanwhile is kept off that.
    """
    if not sys.stderr.isatty():
        with _lines() as tell:
            yield tell
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(file=sys.stderr).status("starting") as spinner:
        yield lambda step: spinner.update(f"{escape(step)} ...")


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[str], None]]:
    """Yield the same, of a log: what takes less than EVERY seconds says nothing."""
    steps, since, over = ["starting"], time.monotonic(), threading.Event()
    shown_on = sys.stderr

    def show() -> None:
        while not over.wait(EVERY):
            text = f"{steps[-1]}: {time.monotonic() - since:.0f} s so far"
            print(text, file=shown_on)

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield steps.append
    finally:
        over.set()
        thread.join()
