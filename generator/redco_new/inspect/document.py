"""Plan -> one document of plain data: what `redco inspect` prints, draws, and writes as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from redco_new.inspect import units
from redco_new.inspect.classes import classes
from redco_new.sharding import (
    Collective,
    collectives_per_layer,
    dim_letters,
    predict_collectives,
    shard_shape,
)

if TYPE_CHECKING:
    from redco_new.sharding import Plan

LARGE = 1_000_000  # bytes: a parameter above this that stays whole is listed by name
MOMENT = 4  # bytes of an element of each of Adam's two moments, which are float32

Row = dict[str, Any]


def document(model: str, plan: Plan) -> dict[str, Any]:
    """model, mesh, parameters, classes, memory, collectives, layer, whole, batch, warnings.

    All of it is JSON. README.md says what each key holds.
    """
    rows, found = plan.rows(), predict_collectives(plan)
    return {
        "model": model,
        "mesh": dict(plan.mesh),
        "batch": batch(plan),
        "parameters": rows,
        "classes": classes(plan),
        "memory": memory(plan, rows),
        "whole": whole(rows, plan.mesh),
        "collectives": [plain(one) for one in found],
        "layer": layer(found),
        "warnings": list(plan.warnings),
    }


def batch(plan: Plan) -> dict[str, int]:
    """B and S as traced, of all the devices that the axes of the plan's mesh make."""
    inputs = plan.classes.inputs
    sizes = {letter: size for (node, size), letter in dim_letters(plan).items() if node in inputs}
    return {letter: sizes[letter] for letter in ("B", "S") if letter in sizes}


def memory(plan: Plan, rows: list[Row]) -> dict[str, int]:
    """Bytes on each device, and of the parameters as a whole. Activations come on top."""
    held = sum(map(units.held, rows))
    shards = (
        shard_shape(shape, spec, plan.mesh)
        for shape, spec in zip(plan.stored, plan.moments, strict=True)
    )
    moments = sum(2 * MOMENT * math.prod(shape) for shape in shards)
    return {
        "elements": sum(math.prod(row["shape"]) for row in rows),
        "all_parameters": sum(row["bytes"] for row in rows),
        "parameters": held,
        "gradients": held,
        "moments": moments,
        "together": 2 * held + moments,
    }


def whole(rows: list[Row], mesh: dict[str, int]) -> list[str]:
    """The large parameters that every device holds in full, each with its reason."""
    if math.prod(mesh.values()) == mesh["data"]:
        return []
    large = (r for r in rows if r["shard_shape"] == r["shape"] and r["bytes"] > LARGE)
    return [f"{row['path']}, {units.size(row['bytes'])}: {row['reason']}" for row in large]


def plain(one: Collective) -> dict[str, Any]:
    """A predicted collective as JSON has it."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(one).items()}


def layer(found: list[Collective]) -> dict[str, Any]:
    """layers: how many there are; collectives: what each of them sends, a line each."""
    layers, repeated = collectives_per_layer(found)
    lines = (
        f"{one.times // layers} {one.kind} {one.phase}, of {one.array}, {units.size(one.bytes)},"
        f" for {' and '.join(one.classes)}"
        for one in repeated
    )
    return {"layers": layers, "collectives": list(lines)}
