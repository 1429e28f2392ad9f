"""What a merge may take: 30 s, after which it is a conflict, and what it remembers of its texts until it is done."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import ParamSpec, TypeVar

from redco_merge.result import Unmergeable

P = ParamSpec("P")
T = TypeVar("T")
_MOST = 4096  # of each kind: a file of 8,000 lines has a thousand chunks, its three sides many in common
_forgets: list[Callable[[], None]] = []


def remember(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function work out once, in a merge, what it makes of equal arguments; nobody is to change that."""
    cached = lru_cache(maxsize=_MOST)(function)
    _forgets.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def forget() -> None:
    """Drop all that is remembered: trees of some megabytes, which would slow down the collector."""
    for drop in _forgets:
        drop()


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
