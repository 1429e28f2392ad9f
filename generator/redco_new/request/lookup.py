"""Find what a flag names, or say what is near."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from redco_new.errors import RedcoError

T = TypeVar("T")
UNITS = {"m": 1e6, "b": 1e9}
SIZE = re.compile(r"(?:^|-)([0-9]+(?:\.[0-9]+)?)([mb])(?:-|$)")


def look_up(kind: str, name: str, entries: Mapping[str, T]) -> T:
    """Return the entry of `entries` by that name. Raises RedcoError on --`kind` that suggests the near ones."""
    if name in entries:
        return entries[name]
    near = _nearest_sizes(name, entries)
    near = near or difflib.get_close_matches(name.lower(), entries, n=3, cutoff=0.5)
    todo = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(entries)}"
    raise RedcoError(f"--{kind}", f"unknown {kind} {name!r}", todo)


def list_of(kind: str, where: str, value: Any, table: Collection[str], example: str) -> list[str]:
    """Return names as `slurm,sky` or a list of TOML gives them. Raises RedcoError for one that is not known.

    kind: what each is, for people. example: such a list.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise RedcoError(where, f"{value!r} is no list of {kind}s", f"give such as {example}")
    names = [name.strip() for name in names]
    if unknown := [name for name in names if name not in table]:
        todo = f"choose some of {','.join(table)}"
        raise RedcoError(where, f"unknown {kind} {unknown[0]!r}", todo)
    return names


def _nearest_sizes(name: str, entries: Iterable[str]) -> list[str]:
    """Return the two entries whose parameters are nearest by ratio, where `name` says a number of these: 1b, 350m."""
    wanted = _parameters(name) if SIZE.fullmatch(name.lower()) else 0.0
    sizes = {entry: size for entry in entries if (size := _parameters(entry))}
    if not wanted:
        return []
    return sorted(sizes, key=lambda entry: abs(math.log(sizes[entry] / wanted)))[:2]


def _parameters(name: str) -> float:
    """Return how many parameters the name of a size says, 0 for none: the 1.4e9 of pythia-1.4b."""
    said = SIZE.search(name.lower())
    return float(said[1]) * UNITS[said[2]] if said else 0.0
