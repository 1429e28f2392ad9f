"""Plan -> the collectives that one training step should make, each with the line that causes it.

What a compiler adds when it recomputes a layer in the backward pass is not counted.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import jax.numpy as jnp

from redco_plan.activations import Rows
from redco_plan.causes import BACKWARD, PHASES, Cause, Causes
from redco_plan.classes import LETTERS
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
from redco_plan.graph import Node, Value
from redco_plan.plan import Plan

PARAMETERS, GRADIENTS = "parameters", "gradients"


@dataclass(frozen=True)
class Collective:
    """A collective that a step should make.

    kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
    phase: forward or backward.
    axes: mesh axes over which it runs.
    classes: labels of the split classes that cause it.
    array: its dims, "B S D" (a size where a dim has no letter), or "2 of B S D" where one
        collective serves two arrays; PARAMETERS or GRADIENTS.
    bytes: what a device begins or ends with, whichever is more, its rows of the batch as traced.
    times: how often a step makes it.
    sources: the lines of the model that cause it, `model.py:12 (function)`.
    """

    kind: str
    phase: str
    axes: Axes
    classes: tuple[str, ...]
    array: str
    bytes: int
    times: int
    sources: tuple[str, ...]


def bytes_sent(plan: Plan, collectives: Iterable[Collective]) -> dict[Axes, int]:
    """Return axes -> the bytes that each device sends over them in a step, on rings; in the order of the mesh.

    The first axis is the one that lies across hosts where a mesh has several, and the last ones within them.
    """
    sent: dict[Axes, float] = defaultdict(float)
    for one in collectives:
        n = math.prod(plan.mesh[axis] for axis in one.axes)
        share = {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1.0}
        sent[one.axes] += one.times * one.bytes * share.get(one.kind, (n - 1) / n)
    order = [*plan.mesh]
    rising = sorted(sent, key=lambda axes: [order.index(axis) for axis in axes])
    return {axes: int(sent[axes]) for axes in rising if sent[axes]}


def predict_collectives(plan: Plan) -> list[Collective]:
    """Return the collectives of one step: of activations in program order, then of parameters.

    Equal ones are one record, their `times` added up.
    """
    times: dict[Collective, int] = defaultdict(int)
    parts = _of_activations, _of_positions, _of_rows, _of_stages, _of_parameters
    for one in itertools.chain(*(part(plan) for part in parts)):
        times[replace(one, times=0)] += one.times
    merged = [replace(one, times=n) for one, n in times.items()]
    return sorted(merged, key=lambda one: (not one.classes, PHASES.index(one.phase)))


def collectives_per_layer(collectives: Iterable[Collective]) -> tuple[int, list[Collective]]:
    """Return (layers, what each of them sends): as many layers as explain the most bytes.

    The vocabulary is at the ends of a model, not in its layers. (1, []) if nothing repeats.
    """
    inside = [
        one for one in collectives if one.classes and not {"vocab", "layers"} & {*one.classes}
    ]

    def explained(layers: int) -> tuple[int, int]:
        return sum(o.bytes * o.times for o in inside if o.times % layers == 0), layers

    layers = max({one.times for one in inside} - {1}, key=explained, default=1)
    return layers, [one for one in inside if one.times % layers == 0 and layers > 1]


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
        dims = _dims_text(plan, letters, one.value)
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


def _of_positions(plan: Plan) -> Iterator[Collective]:
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
        dims = _dims_text(plan, letters, replace(value, dims=several))
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
        half = {"forward": (q + 2 * k, q, sums), "backward": (2 * q + 2 * k, 2 * sums, q + 2 * k)}
        once = {"forward": [(n - 1, 2 * k)], "backward": [(n, 2 * k), (n - 1, 2 * wide)]}
        for phase in PHASES:
            for times, one in [*once[phase], *((2, part // 2) for part in half[phase])]:
                yield Collective(
                    kind="collective-permute",
                    phase=phase,
                    axes=(CONTEXT,),
                    classes=("positions",),
                    array=_dims_text(plan, letters, value),
                    bytes=one,
                    times=times * dot.times,
                    sources=(dot.source,),
                )


def _whole_parts(plan: Plan, value: Value) -> int:
    """Return into how many parts devices split a value."""
    spec = plan.layouts.of(value)
    return math.prod(plan.mesh[axis] for entry in spec for axis in axes_of_entry(entry))


def _of_stages(plan: Plan) -> Iterator[Collective]:
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
            dims = _dims_text(plan, dim_letters(plan), replace(value, dims=value.dims[1:]))
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
        dims, size = _dims_text(plan, letters, rows.value), rows.value.bytes // parts
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
    tables = {i for rows in _tables(plan) for i in rows.tables if plan.layouts.only_looked_up(i)}
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


def dim_letters(plan: Plan) -> dict[tuple[Node, int], str]:
    """Return (class, size) -> its letter: classes of parameters, and B and S of the batch."""
    classes = plan.classes
    letters = {
        (node, size): LETTERS[label]
        for node, label in classes.labels.items()
        if label in LETTERS
        for size in classes.sizes[node]
    }
    for value in classes.batch[:1]:
        roles = ("batch", "sequence") if len(value.dims) == 2 else ("batch",)
        for role, node in zip(roles, value.dims, strict=False):
            if (root := classes.graph.find(node)) not in classes.labels:
                letters[root, classes.graph.sizes[node]] = LETTERS[role]
    return letters


def _dims_text(plan: Plan, letters: dict[tuple[Node, int], str], value: Value) -> str:
    """Return the dims of an activation: letters, or sizes where they have none."""
    graph = plan.classes.graph
    dims = ((graph.find(node), graph.sizes[node]) for node in value.dims)
    return " ".join(letters.get(dim) or str(dim[1]) for dim in dims) or "scalar"


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    """Return words without repetitions, in their order."""
    return tuple(dict.fromkeys(words))
