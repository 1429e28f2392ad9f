"""Find what a flag names, or say what is near."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from redco_new.errors import RedcoError

T = TypeVar("T")


def look_up(kind: str, name: str, entries: Mapping[str, T]) -> T:
    """Return the entry of `entries` by that name. Raises RedcoError on --`kind` that suggests the near ones."""
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name.lower(), entries, n=3, cutoff=0.5)
    todo = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(entries)}"
    raise RedcoError(f"--{kind}", f"unknown {kind} {name!r}", todo)
