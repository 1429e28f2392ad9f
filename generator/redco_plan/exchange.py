"""What devices exchange that have parts of a text each, or some of the layers: positions for heads, a ring, a pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from redco_plan.causes import PHASES
from redco_plan.collective import Collective, dim_letters, dims_text
from redco_plan.graph import Value
from redco_plan.placement import CONTEXT, STAGE, axes_of_entry
from redco_plan.plan import Plan


def of_positions(plan: Plan) -> Iterator[Collective]:
    """Yield how what meets in attention changes from a part of the positions to one of the heads, and back."""
    if plan.mesh.get(CONTEXT, 1) == 1:
        return
    if plan.layouts.ring:
        yield from _around(plan)
        return
    letters = dim_letters(plan)
    for value, dot in plan.layouts.positions.meetings:
        parts = _whole_parts(plan, value)
        several = tuple(node for node in value.dims if plan.classes.graph.sizes[node] > 1)
        dims = dims_text(plan, letters, replace(value, dims=several))
        for phase in PHASES:
            yield Collective(
                kind="all-to-all",
                phase=phase,
                axes=(CONTEXT,),
                classes=("positions",),
                array=dims,
                bytes=value.bytes // parts,
                times=dot.times,
                sources=(dot.source,),
            )


def _around(plan: Plan) -> Iterator[Collective]:
    """Yield how keys and values go around a ring, once in each pass, and their gradients, in float32.

    And how a device gets its parts from either end of a text, and gives them back (redco_runtime/nn/ring.py).
    """
    n, letters, sizes = plan.mesh[CONTEXT], dim_letters(plan), plan.classes.graph.sizes
    for value, dot in plan.layouts.positions.meetings:
        if value is dot.out or not plan.layouts.positions.count(dot.contracted):
            continue
        k, q = (one.bytes // _whole_parts(plan, one) for one in (value, dot.out))
        size = value.bytes // math.prod(sizes[node] for node in value.dims)  # of an element
        free = {*value.dims} - {*dot.batch, *dot.contracted}
        wide = 4 * k // size
        sums = 4 * q // size // math.prod(sizes[node] for node in free)
        half = {"forward": (q + 2 * k, q, sums), "backward": (3 * q + 2 * k, sums, q + 2 * k)}
        once = {"forward": [(n - 1, 2 * k)], "backward": [(n, 2 * k), (n - 1, 2 * wide)]}
        for phase in PHASES:
            for times, one in [*once[phase], *((2, part // 2) for part in half[phase])]:
                yield Collective(
                    kind="collective-permute",
                    phase=phase,
                    axes=(CONTEXT,),
                    classes=("positions",),
                    array=dims_text(plan, letters, value),
                    bytes=one,
                    times=times * dot.times,
                    sources=(dot.source,),
                )


def _whole_parts(plan: Plan, value: Value) -> int:
    """Return into how many parts devices split a value."""
    spec = plan.layouts.of(value)
    return math.prod(plan.mesh[axis] for entry in spec for axis in axes_of_entry(entry))


def of_stages(plan: Plan) -> Iterator[Collective]:
    """Yield how micro-batches of a row a device go from stage to stage, and their stream a stage on, each tick."""
    stages, graph = plan.mesh.get(STAGE, 1), plan.classes.graph
    if stages == 1:
        return
    for body, eqn, _ in graph.bodies[0].equations():
        if eqn.primitive.name != "scan":
            continue
        first, count = eqn.params["num_consts"], eqn.params["num_carry"]
        for value in map(body.value, eqn.invars[first : first + count]):
            if (
                value is None
                or not value.dims
                or graph.find(value.dims[0]) not in plan.layouts.rows
            ):
                continue
            rows = graph.sizes[value.dims[0]]
            apart = math.prod(plan.mesh[axis] for axis in plan.batch_axes if axis != STAGE)
            dims = dims_text(plan, dim_letters(plan), replace(value, dims=value.dims[1:]))
            for phase in PHASES:
                yield Collective(
                    kind="collective-permute",
                    phase=phase,
                    axes=(STAGE,),
                    classes=("layers",),
                    array=dims,
                    bytes=value.bytes // rows // _inner_parts(plan, value),
                    times=2 * (rows // apart + stages - 1),
                    sources=(),
                )


def _inner_parts(plan: Plan, value: Value) -> int:
    """Return into how many parts devices that share rows split a value, such as its positions."""
    over = {axis for entry in plan.layouts.of(value) for axis in axes_of_entry(entry)}
    return math.prod(plan.mesh[axis] for axis in over - {*plan.batch_axes})
