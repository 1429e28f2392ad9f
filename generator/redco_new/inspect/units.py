"""Figures and layouts as people read them."""

from __future__ import annotations

import json
import math

from redco_new.inspect.schema import ClassRow, CollectiveRow, Entry, ParameterRow


def size_text(n: float) -> str:
    """Return bytes with a unit of 1000: 134.2 MB."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while n >= 1000 and len(units) > 1:
        n, units = n / 1000, units[1:]
    return f"{n:.1f} {units[0]}"


def shape_text(sizes: list[int], between: str = " ") -> str:
    """Return the sizes of an array, or "scalar"."""
    return between.join(map(str, sizes)) or "scalar"


def bytes_on_device(row: ParameterRow) -> int:
    """Return the bytes of a parameter on one device."""
    return row["bytes"] * math.prod(row["shard_shape"]) // max(math.prod(row["shape"]), 1)


def device_text(row: ParameterRow, between: str = " ") -> str:
    """Return the shape of one device's part, and how the parameter is stored if it is padded."""
    padded = row["stored_shape"] != row["shape"]
    more = f" (padded to {shape_text(row['stored_shape'], between)} in all)" if padded else ""
    return shape_text(row["shard_shape"], between) + more


def spec_text(entries: list[Entry]) -> str:
    """Return a PartitionSpec as the generated sharding.py writes it."""
    return f"P({', '.join(map(_entry_text, entries))})"


def _entry_text(axes: Entry) -> str:
    """Return an entry of a PartitionSpec: None, "model", or ("model_1", "model_2")."""
    if isinstance(axes, list):
        return f"({', '.join(map(json.dumps, axes))})"
    return "None" if axes is None else json.dumps(axes)


def mesh_text(sizes: dict[str, int]) -> str:
    """Return `data 1, fsdp 2, model 8, taken apart into model_1 2 and model_2 4`."""
    parts = {axis: n for axis, n in sizes.items() if axis.startswith("model_")}
    words = [f"{axis} {n}" for axis, n in sizes.items() if axis not in parts]
    if parts:
        names = join_words([f"{axis} {n}" for axis, n in parts.items()])
        words.append(f"model {math.prod(parts.values())}, taken apart into {names}")
    return ", ".join(words)


def split_text(row: ClassRow, sizes: dict[str, int]) -> str:
    """Return how a class is split: `model, 4 ways`; `fsdp, 2 ways, in 10 of 13`; `whole`.

    sizes: of the mesh axes
    """
    if row["axes"]:
        return f"{join_words(row['axes'])}, {row['parts']} ways"
    if row["fsdp"]:
        return f"fsdp, {sizes['fsdp']} ways, in {row['fsdp']} of {row['parameters']}"
    return "whole"


def join_words(words: list[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def cause_text(row: CollectiveRow) -> str:
    """Return what a collective is for: classes, the parts that fsdp, context and stage make, or different rows."""
    parts = {*row["axes"]} <= {"fsdp", "context", "stage"}
    return ", ".join(row["classes"]) or (join_words(row["axes"]) if parts else "the batch")
