"""What a merge remembers of its texts and their chunks, and forgets when it is done."""

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

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
