"""`redco inspect`: how a model's parameters would be split, as a table for people or as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redco_new.sharding.plan import Plan

LARGE = 1_000_000  # bytes: a parameter above this that stays whole is listed by name
WIDTH = 200  # columns, where the output is not a terminal

Row = dict[str, Any]


def report(model: str, plan: Plan, *, as_json: bool) -> None:
    """Print a plan on standard output."""
    if as_json:
        print(json.dumps({"mesh": dict(plan.mesh), "parameters": plan.rows()}, indent=2))
    else:
        print_table(model, dict(plan.mesh), plan.rows(), plan.warnings)


def print_table(
    model: str, mesh: dict[str, int], rows: list[Row], warnings: tuple[str, ...]
) -> None:
    """Print a row a parameter, then the totals, then what is whole although it is large."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    table = Table("path", "shape", "dims", "spec", "on each device", "reason", box=None)
    for row in rows:
        shapes = _shape(row["shape"]), " ".join(row["dims"]), _spec(row["spec"])
        table.add_row(row["path"], *shapes, _shape(row["shard_shape"]), row["reason"])
    sizes = ", ".join(f"{axis} {size}" for axis, size in mesh.items())
    console.print(f"{model} on the mesh {sizes}\n")
    console.print(table)
    console.print()
    for line in [*totals(rows), *whole(rows, mesh), *(f"warning: {text}" for text in warnings)]:
        console.print(line, soft_wrap=True)


def totals(rows: list[Row]) -> list[str]:
    """Parameters, bytes, and bytes on each device, of all rows together."""
    count = sum(math.prod(row["shape"]) for row in rows)
    total = sum(row["bytes"] for row in rows)
    shard = sum(_shard_bytes(row) for row in rows)
    return [
        f"parameters  {count:,} in {len(rows)} arrays",
        f"bytes       {_size(total)} in all, {_size(shard)} on each device",
    ]


def whole(rows: list[Row], mesh: dict[str, int]) -> list[str]:
    """The large parameters that every device holds in full, each with its reason."""
    if mesh["fsdp"] * mesh["model"] == 1:
        return []
    large = [r for r in rows if r["shard_shape"] == r["shape"] and r["bytes"] > LARGE]
    if not large:
        return [f"whole       nothing over {_size(LARGE)} is left whole"]
    return [f"whole       {r['path']}, {_size(r['bytes'])}: {r['reason']}" for r in large]


def _shard_bytes(row: Row) -> int:
    return row["bytes"] * math.prod(row["shard_shape"]) // max(math.prod(row["shape"]), 1)


def _shape(sizes: list[int]) -> str:
    return " ".join(map(str, sizes)) or "scalar"


def _spec(spec: list[Any]) -> str:
    """A PartitionSpec as the generated sharding.py writes it."""
    return f"P({', '.join('None' if axis is None else json.dumps(axis) for axis in spec)})"


def _size(n: float) -> str:
    units = ["B", "kB", "MB", "GB", "TB"]
    while n >= 1000 and len(units) > 1:
        n, units = n / 1000, units[1:]
    return f"{n:.1f} {units[0]}"
