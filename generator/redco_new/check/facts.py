"""The facts of .redco/check.json: what a check compares with. They are input: read with care, never believed.

{"schema": 1, "facts": {check: value}, "symbols": {path: {symbol: digest}}, "versions": {package: version}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from redco_new.check.table import ACCEPTABLE
from redco_new.errors import RedcoError
from redco_new.transaction import locate

FILE = ".redco/check.json"
SCHEMA = 1
LARGEST = 16 << 20  # bytes
PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "numpy")
CLOSE = 1e-5  # of a loss or a norm of the first step: an equal formula differs by some roundings
LATER = 1e-4  # of those after it: Adam's first steps divide by what may be a rounding
MOST = 4  # differences of a table that a line names


@dataclass(frozen=True)
class Facts:
    """What a project was, as it was checked or accepted last.

    values: check -> its fact.  symbols: as symbols.py has them.  versions: package -> version.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    symbols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def read_facts(root: Path) -> Facts | None:
    """Return the facts of a project; None where it has none. Raises RedcoError for what is damaged."""
    path = root / locate(root, FILE)
    todo = "bring it back from git, or delete it: then the next check records what is there"
    try:
        if path.stat().st_size > LARGEST:
            raise RedcoError(FILE, f"is larger than {LARGEST >> 20} MB", todo)
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] > SCHEMA:
            raise RedcoError(FILE, "was written by a newer redco", "install that")
        facts = Facts(content["facts"], content["symbols"], content["versions"])
        _check(facts)
        return facts
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RedcoError(FILE, f"cannot be read: {error.strerror}", todo) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"is damaged: {type(error).__name__}: {error}"
        raise RedcoError(FILE, what, todo) from error


def _check(facts: Facts) -> None:
    """Raise ValueError for facts of another form than a check writes."""

    def is_table(value: Any, of: type | tuple[type, ...]) -> bool:
        return isinstance(value, dict) and all(isinstance(x, of) for x in value.values())

    forms = {
        "loss": lambda x: is_table(x, list)
        and all(isinstance(n, int | float) for row in x.values() for n in row),
        "order": lambda x: isinstance(x, list) and all(isinstance(one, str) for one in x),
        "reach": lambda x: isinstance(x, str),
        "specs": lambda x: is_table(x, str),
        "checkpoint": lambda x: is_table(x, str),
        "collectives": lambda x: is_table(x, dict)
        and {*x} == {"bytes", "places"}
        and all(is_table(part, int) for part in x.values()),
    }
    for name, value in facts.values.items():
        if name not in forms or not forms[name](value):
            raise ValueError(f"the fact {name!r}")
    if not is_table(facts.versions, str) or not all(
        is_table(x, str) for x in facts.symbols.values()
    ):
        raise ValueError("symbols or versions")


def write_facts(root: Path, facts: Facts) -> bool:
    """Write the facts, whole or not at all, where they are others. Returns whether it did. Raises RedcoError."""
    content = {
        "schema": SCHEMA,
        "facts": {name: facts.values[name] for name in ACCEPTABLE if name in facts.values},
        "symbols": facts.symbols,
        "versions": facts.versions,
    }
    text = json.dumps(content, indent=1) + "\n"
    path = root / locate(root, FILE)
    part = path.with_name(f"{path.name}.part")
    try:
        if path.exists() and path.read_text(encoding="utf-8") == text:
            return False
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise RedcoError(FILE, what, "mend that and run it again") from error
    return True


def versions() -> dict[str, str]:
    """Return the packages on which facts depend, and their versions here."""
    return {name: metadata.version(name) for name in PACKAGES}


def differences(name: str, before: Any, now: Any) -> list[str]:
    """Return how a fact differs from what it was, in the words of a line; [] where it does not."""
    if name == "loss":
        return _numbers(before, now)
    if name == "order":
        return [
            f"the batch of step {step} is another"
            for step, (one, other) in enumerate(zip(before, now, strict=False), 1)
            if one != other
        ][:1] or (["there are more or fewer batches"] if len(before) != len(now) else [])
    if name == "reach":
        return [f"a token has an effect on {now}, before on {before}"] if before != now else []
    if name == "collectives":
        return _bytes(before["bytes"], now["bytes"])
    return _entries(before, now, "whole" if name == "specs" else "none")


def _numbers(before: Mapping[str, list[float]], now: Mapping[str, list[float]]) -> list[str]:
    for step in range(max(map(len, now.values()), default=0)):
        most = LATER if step else CLOSE
        for name, values in now.items():
            old = before.get(name, [])
            if step >= len(old):
                return [f"{name} of step {step + 1} is new"]
            if not abs(values[step] - old[step]) <= most * max(abs(old[step]), 1e-6):
                return [f"{name} of step {step + 1} is {values[step]:.6g}, was {old[step]:.6g}"]
    return []


def _bytes(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    more = {name: size for name, size in now.items() if size > before.get(name, 0)}
    words = [
        f"{name}: {size:,} bytes a step, were {before.get(name, 0):,}"
        for name, size in more.items()
    ]
    return words if sum(now.values()) > sum(before.values()) or more else []


def _entries(before: Mapping[str, str], now: Mapping[str, str], nothing: str) -> list[str]:
    changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
    words = [f"{x} is {now.get(x, nothing)}, was {before.get(x, nothing)}" for x in changed]
    return words[:MOST] + ([f"{len(words) - MOST} more"] if len(words) > MOST else [])
