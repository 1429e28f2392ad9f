"""Find what a flag names, or say what is near."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from redco_new.errors import RedcoError

T = TypeVar("T")


def look_up(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The entry of `known` by that name. Raises RedcoError on --`kind` that suggests the near ones."""
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    todo = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(known)}"
    raise RedcoError(f"--{kind}", f"unknown {kind} {name!r}", todo)
