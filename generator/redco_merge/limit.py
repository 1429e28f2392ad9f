"""A limit of time for a merge: what takes longer is a conflict. And no collection of garbage meanwhile."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from redco_merge.memory import forget
from redco_merge.source import Unmergeable

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Make `check_time` raise once the seconds are over."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Raise Unmergeable if the merge has taken too long; for whatever may take more than a moment."""
    if time.monotonic() > _deadline.get():
        raise Unmergeable("it would take too long")


@contextmanager
def pause_collector() -> Iterator[None]:
    """Leave garbage where it is: to walk the syntax trees again and again was a third of a merge."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        forget()
        if was_on:
            gc.enable()
