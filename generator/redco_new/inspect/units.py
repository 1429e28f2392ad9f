"""Figures and layouts as people read them."""

from __future__ import annotations

import json
import math
from typing import Any


def size(n: float) -> str:
    """Bytes with a unit of 1000: 134.2 MB."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while n >= 1000 and len(units) > 1:
        n, units = n / 1000, units[1:]
    return f"{n:.1f} {units[0]}"


def shape(sizes: list[int], between: str = " ") -> str:
    return between.join(map(str, sizes)) or "scalar"


def held(row: dict[str, Any]) -> int:
    """Bytes of a parameter on one device."""
    return row["bytes"] * math.prod(row["shard_shape"]) // max(math.prod(row["shape"]), 1)


def on_device(row: dict[str, Any], between: str = " ") -> str:
    """The shape of one device's part, and how the parameter is stored if it is padded."""
    padded = row["stored_shape"] != row["shape"]
    more = f" (padded to {shape(row['stored_shape'], between)} in all)" if padded else ""
    return shape(row["shard_shape"], between) + more


def spec(entries: list[Any]) -> str:
    """A PartitionSpec as the generated sharding.py writes it."""
    return f"P({', '.join(map(entry, entries))})"


def entry(axes: str | list[str] | None) -> str:
    """None, "model", or ("model_1", "model_2")."""
    if isinstance(axes, list):
        return f"({', '.join(map(json.dumps, axes))})"
    return "None" if axes is None else json.dumps(axes)


def mesh(sizes: dict[str, int]) -> str:
    """`data 1, fsdp 2, model 8, taken apart into model_1 2 and model_2 4`."""
    parts = {axis: n for axis, n in sizes.items() if axis.startswith("model_")}
    words = [f"{axis} {n}" for axis, n in sizes.items() if axis not in parts]
    if parts:
        names = listed([f"{axis} {n}" for axis, n in parts.items()])
        words.append(f"model {math.prod(parts.values())}, taken apart into {names}")
    return ", ".join(words)


def over(one: dict[str, Any], sizes: dict[str, int]) -> str:
    """How a class is split: `model, 4 ways`; `fsdp, 2 ways, in 10 of 13`; `whole`."""
    if one["axes"]:
        return f"{listed(one['axes'])}, {one['parts']} ways"
    if one["fsdp"]:
        return f"fsdp, {sizes['fsdp']} ways, in {one['fsdp']} of {one['parameters']}"
    return "whole"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def cause(one: dict[str, Any]) -> str:
    """What a collective is for: classes, the parts that fsdp makes, or different rows."""
    return ", ".join(one["classes"]) or ("fsdp" if one["axes"] == ["fsdp"] else "the batch")
