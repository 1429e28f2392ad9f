"""A class that is another one and more: its source is found where that of the other is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def derived(cls: type, *first: type, name: str = "", members: Mapping[str, Any] = {}) -> Any:
    """Return a class that is `cls`, and `first` before it. name: its own. members: that it has more"""
    place = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(name or cls.__name__, (*first, cls), {**place, **members})
