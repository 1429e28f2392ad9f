"""Plan -> the collectives that one training step should make, each with the line that causes it.

What a compiler adds when it recomputes a layer in the backward pass is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import jax.numpy as jnp

from redco_plan.activations import Rows
from redco_plan.causes import BACKWARD, PHASES, Cause, Causes
from redco_plan.collective import GRADIENTS, PARAMETERS, Collective, dim_letters, dims_text
from redco_plan.exchange import of_positions, of_stages
from redco_plan.placement import (
    CONTEXT,
    DATA,
    EXPERT,
    STAGE,
    Axes,
    axes_of_entry,
    fsdp_axes,
    shard_shape,
)
from redco_plan.plan import Plan
from redco_plan.tables import only_looked_up


def predict_collectives(plan: Plan) -> list[Collective]:
    """Return the collectives of one step: of activations in program order, then of parameters.

    Equal ones are one record, their `times` added up.
    """
    times: dict[Collective, int] = defaultdict(int)
    parts = _of_activations, of_positions, _of_rows, of_stages, _of_parameters
    for one in itertools.chain(*(part(plan) for part in parts)):
        times[replace(one, times=0)] += one.times
    merged = [replace(one, times=n) for one, n in times.items()]
    return sorted(merged, key=lambda one: (not one.classes, PHASES.index(one.phase)))


def _of_activations(plan: Plan) -> Iterator[Collective]:
    """Yield one collective for each group of causes that it can serve."""
    find, letters, all_causes = plan.classes.graph.find, dim_letters(plan), Causes.of(plan)
    groups: dict[object, list[Cause]] = defaultdict(list)
    for cause in all_causes:
        shape = tuple(map(find, cause.value.dims))
        alike = (cause.place, cause.kind, cause.phase, cause.axes, shape, cause.times)
        groups[alike].append(cause)
    for causes in groups.values():
        one = causes[0]
        count = len(all_causes.flow.groups({cause.value.key for cause in causes}))
        dims = dims_text(plan, letters, one.value)
        yield Collective(
            kind=one.kind,
            phase=one.phase,
            axes=one.axes,
            classes=_unique(plan.classes.labels.get(cause.node, "inner") for cause in causes),
            array=dims if count == 1 else f"{count} of {dims}",
            bytes=count * _bytes_on_device(plan, one),
            times=one.times,
            sources=_unique(cause.source for cause in causes),
        )


def _bytes_on_device(plan: Plan, cause: Cause) -> int:
    """Return the bytes of the rows of an array that one device ends or begins with."""
    gathered = cause.axes if cause.kind in ("all-gather", "reduce-scatter") else ()
    axes = token_axes(plan) if plan.layouts.positions.count(cause.value.dims) else plan.batch_axes
    over = [axis for axis in axes if axis not in gathered]
    parts = math.prod(plan.mesh[axis] for axis in over) if cause.value.data else 1
    return cause.value.bytes // parts


def _gathered_over(plan: Plan) -> Axes:
    """Return the axes of several devices over which a device gathers what it has a part of, of parameters."""
    return tuple(axis for axis in fsdp_axes(plan.mesh) if plan.mesh[axis] > 1)


def token_axes(plan: Plan) -> Axes:
    """Return the axes that split the tokens of a batch: rows, and positions."""
    return (*plan.batch_axes, *(axis for axis in plan.mesh if axis == CONTEXT))


def _tables(plan: Plan) -> Iterator[Rows]:
    """Yield the rows that change devices over fsdp, so that their tables stay."""
    for named in plan.layouts.rows_of_tables(plan.partitions).values():
        layouts = {rows.layout for rows in named}
        if len(layouts) == 1 and (over := _gathered_over(plan)):
            split = {axis for entry in layouts.pop() for axis in axes_of_entry(entry)}
            yield from named if split & {*over} else ()


def _of_rows(plan: Plan) -> Iterator[Collective]:
    """Yield how rows of tables that fsdp splits go to the devices of their tokens, and gradients back."""
    letters = dim_letters(plan)
    parts = math.prod(plan.mesh[axis] for axis in token_axes(plan))
    for rows in _tables(plan):
        dims, size = dims_text(plan, letters, rows.value), rows.value.bytes // parts
        for phase in PHASES:
            yield Collective("all-to-all", phase, _gathered_over(plan), (), dims, size, 1, ())


def _of_parameters(plan: Plan) -> Iterator[Collective]:
    """Yield what parameters and gradients send over the axes that split the batch.

    ZeRO's third stage (Rajbhandari et al. 2020, section 5.3): a parameter that fsdp splits is
    gathered in each pass, and its gradient is scattered. What is not split over an axis of the
    batch has its gradient reduced over it. A table of which
    nothing but rows is read stays, and so does its gradient. What is frozen has none. That of a table
    counts as reduced: where rows are fewer, the runtime's `look_up` sends theirs instead, which is less.
    """
    tables = {i for rows in _tables(plan) for i in rows.tables if only_looked_up(plan.classes, i)}
    gathered = scattered = 0
    over = _gathered_over(plan)
    devices = math.prod(plan.mesh[axis] for axis in over)
    reduced: dict[Axes, int] = defaultdict(int)
    crossing: dict[Axes, int] = defaultdict(int)
    parameters = zip(plan.parameters, plan.partitions, plan.stored, strict=True)
    for i, (parameter, spec, stored) in enumerate(parameters):
        own = {axis for entry in spec for axis in axes_of_entry(entry)}
        size = math.prod(shard_shape(stored, spec, plan.mesh)) * parameter.dtype.itemsize
        stays = i in tables or in_stages(plan, i)
        whole = size * devices if own & {*over} and not stays else 0
        gathered += whole
        if parameter.path in plan.frozen:
            continue
        scattered += whole
        others = [axis for axis in token_axes(plan) if axis not in own and plan.mesh[axis] > 1]
        across = crossed_axes(plan, others)
        reduced[tuple(axis for axis in others if axis not in across)] += size
        narrow = jnp.dtype(plan.across or parameter.dtype).itemsize / parameter.dtype.itemsize
        crossing[across] += int(size * narrow)
    if gathered:
        for phase in PHASES:
            yield Collective("all-gather", phase, over, (), PARAMETERS, gathered, 1, ())
    if scattered:
        yield Collective("reduce-scatter", BACKWARD, over, (), GRADIENTS, scattered, 1, ())
    sums = {("all-reduce",): reduced, ("all-to-all", "all-gather"): crossing}
    for kinds, sizes in sums.items():
        for axes, size in sizes.items():
            for kind in kinds if axes else ():
                yield Collective(kind, BACKWARD, axes, (), GRADIENTS, size, 1, ())


def crossed_axes(plan: Plan, axes: Iterable[str]) -> Axes:
    """Return those of `axes` that gradients cross in a dtype of their own: a part of the sum from each device, then to each."""
    return tuple(axis for axis in axes if plan.across and axis in (DATA, EXPERT))


def in_stages(plan: Plan, index: int) -> bool:
    """Return whether a parameter is a stack of layers of which each stage computes with its own."""
    loops, dims = plan.classes.loops, plan.classes.parameter_dims[index]
    pairs = zip(dims, plan.partitions[index], strict=True)
    return any(node in loops and STAGE in axes_of_entry(entry) for node, entry in pairs)


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    """Return words without repetitions, in their order."""
    return tuple(dict.fromkeys(words))
