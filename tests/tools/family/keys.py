"""Which keys of a config.json a function of a family reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isfunction
from types import CodeType
from typing import Any

from redco_new import models

MODELS = models.__name__


def names_of(function: Callable[..., Any]) -> set[str]:
    """Return the names and texts in a function and in those of redco_new.models that it calls: the keys that it reads."""
    names, left, had = set[str](), [function], set[Any]()
    while left:
        one = left.pop()
        had.add(one)
        own = {*_names(one.__code__)}
        called = [one.__globals__.get(name) for name in own]
        left += [
            x for x in called if isfunction(x) and x.__module__.startswith(MODELS) and x not in had
        ]
        names |= own
    return names


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names and texts of code, and of what is defined in it."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _names(const)
        yield from (
            x for x in (const if isinstance(const, tuple) else [const]) if isinstance(x, str)
        )
