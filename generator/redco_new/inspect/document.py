"""Plan -> one document of plain data: what `redco inspect` prints, draws, and writes as JSON."""

from __future__ import annotations

import math
from itertools import compress
from typing import TYPE_CHECKING, cast

from redco_plan import (
    Collective,
    bytes_sent,
    collectives_per_layer,
    dim_letters,
    predict_collectives,
    shard_shape,
)

from redco_new.inspect import units
from redco_new.inspect.classes import describe_classes
from redco_new.inspect.elements import count_elements
from redco_new.inspect.schema import (
    CollectiveRow,
    Document,
    LayerTraffic,
    Memory,
    ParameterRow,
)

if TYPE_CHECKING:
    from redco_plan import Plan

# Bytes: a parameter above this that stays whole is listed by name. A trade: most norms and biases,
# which are meant to be whole, are below it, and a kernel that was missed is above.
LARGE = 1_000_000
MOMENT = 4  # bytes of an element of each of Adam's two moments, which are float32


def plan_document(model: str, plan: Plan) -> Document:
    """Return the document of a plan, all of it plain data; `model` is its title."""
    rows = cast(list[ParameterRow], plan.rows())  # plain dicts, which the test of the JSON compares
    collectives = predict_collectives(plan)
    return {
        "model": model,
        "mesh": dict(plan.mesh),
        "batch": _traced_batch(plan),
        "parameters": rows,
        "classes": describe_classes(plan),
        "memory": _device_memory(plan, rows),
        "whole": whole_parameters(rows, plan.mesh),
        "collectives": [_collective_row(collective) for collective in collectives],
        "layer": _layer_traffic(collectives),
        "sent": {"+".join(axes): n for axes, n in bytes_sent(plan, collectives).items()},
        "warnings": list(plan.warnings),
    }


def _traced_batch(plan: Plan) -> dict[str, int]:
    """Return B and S as traced, of all the devices that the axes of the plan's mesh make."""
    inputs = plan.classes.inputs
    sizes = {letter: size for (node, size), letter in dim_letters(plan).items() if node in inputs}
    return {letter: sizes[letter] for letter in ("B", "S") if letter in sizes}


def _device_memory(plan: Plan, rows: list[ParameterRow]) -> Memory:
    """Return the bytes on each device, and of the parameters as a whole."""
    parameters = sum(map(units.bytes_on_device, rows))
    trained = [row["path"] not in plan.frozen for row in rows]
    gradients = sum(map(units.bytes_on_device, compress(rows, trained)))
    shards = (
        shard_shape(shape, spec, plan.mesh)
        for shape, spec in compress(zip(plan.stored, plan.moments, strict=True), trained)
    )
    moments = sum(2 * MOMENT * math.prod(shape) for shape in shards)
    return {
        "elements": count_elements(rows),
        "trained": count_elements([*compress(rows, trained)]),
        "all_parameters": sum(row["bytes"] for row in rows),
        "parameters": parameters,
        "gradients": gradients,
        "moments": moments,
        "together": parameters + gradients + moments,
    }


def whole_parameters(rows: list[ParameterRow], mesh: dict[str, int]) -> list[str]:
    """Return the large parameters that every device holds in full, a line with its reason for each.

    mesh: the sizes of its axes
    """
    if math.prod(mesh.values()) == mesh["data"]:
        return []
    large = (r for r in rows if r["shard_shape"] == r["shape"] and r["bytes"] > LARGE)
    return [f"{row['path']}, {units.size_text(row['bytes'])}: {row['reason']}" for row in large]


def _collective_row(collective: Collective) -> CollectiveRow:
    """Return a predicted collective as JSON has it."""
    return {
        "kind": collective.kind,
        "phase": collective.phase,
        "axes": list(collective.axes),
        "classes": list(collective.classes),
        "array": collective.array,
        "bytes": collective.bytes,
        "times": collective.times,
        "sources": list(collective.sources),
    }


def _layer_traffic(cs: list[Collective]) -> LayerTraffic:
    """Return what each layer sends."""
    layers, repeated = collectives_per_layer(cs)
    lines = (
        f"{c.times // layers} {c.kind} {c.phase}, of {c.array}, {units.size_text(c.bytes)},"
        f" for {' and '.join(c.classes)}"
        for c in repeated
    )
    return {"layers": layers, "collectives": list(lines)}
