"""The computation that a layout is derived from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """forward(params, batch); params and batch: trees of ShapeDtypeStructs."""

    forward: Callable[[Any, Any], Any]
    params: Any
    batch: Any
