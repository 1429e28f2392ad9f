"""Check that a model can use as many shards as it is asked to be split in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from jax.sharding import PartitionSpec as P
from redco_plan import CONTEXT, STAGE, Divider, Node, Plan, axes_of_entry, find_ways, inner_axes

from redco_new.errors import RedcoError
from redco_new.request import Request

# Devices that repeat more than this share of each other's work are better rows of `data` or `fsdp`. At half, 16
# heads and a wide MLP go in 32 parts, 12 heads in 8, and nothing in 2 where nothing can be split.
REPEATED = 0.5
MOST = 512  # shards that are looked through for an answer: more than any product of a published model is split in
NAMED = 10  # numbers that an answer names: those nearest below what was asked for


def check_positions(request: Request, name: str) -> None:
    """Raise RedcoError where positions are to be split in a model that does not name its activations."""
    what = f"{name} does not name its activations, which it is about"
    if request.sequence_parallel:
        raise RedcoError("--sequence-parallel", what, "leave it out")
    if request.sequence_length:
        what = f"{name} takes what its own sizes say"
        raise RedcoError("--sequence-length", what, "leave it out")
    for axis in (CONTEXT, STAGE):
        if axis in request.mesh:
            where = f"{axis}={request.mesh[axis]}"
            raise RedcoError("--mesh", f"{where}: {what}", f"leave the axis {axis} out")


def check_context(plan: Plan, name: str) -> None:
    """Raise RedcoError where the axis `context` cannot split positions outside of attention, and heads within it."""
    size = plan.mesh.get(CONTEXT, 1)
    if size == 1:
        return
    over = {
        name: {
            axis for entry in spec if entry is not P.UNCONSTRAINED for axis in axes_of_entry(entry)
        }
        for name, spec in plan.activations.items()
    }
    where, todo = f"context={size}", "leave the axis context out"
    if CONTEXT not in over.get("x_BSD", ()):
        what = f"{where}: {name} has no positions of a batch that it could split"
        raise RedcoError("--mesh", what, todo)
    if CONTEXT not in over.get("attention", ()):
        inner = inner_axes(plan.mesh)
        parts = size * math.prod(plan.mesh[axis] for axis in inner)
        what = f"{where}: {parts} devices (context x model) do not divide the heads of attention in {name}, of which each has its own"
        ring = "add --context-attention ring, which has no such limit"
        raise RedcoError("--mesh", what, f"give a context that does, {ring}, or {todo}")


def check_shards(plan: Plan, shards: int, unsplit: Callable[[], Plan]) -> None:
    """Raise RedcoError if `shards` devices would mostly repeat each other's work, with the numbers that do not.

    unsplit: gives the plan of the same model on one device.
    """
    parts = {node: _size(plan, node) for node in plan.axes}
    if shards == 1 or divided_work(plan, parts, shards) > REPEATED:
        return
    good = ", ".join(map(str, usable_shards(unsplit(), shards - 1)[-NAMED:]))
    what = f"the model cannot use {shards} shards: most of its products do not divide by that many"
    todo = f"give one of {good}, and the other devices to another axis, as in --mesh fsdp=4"
    raise RedcoError(f"--shards {shards}, or model={shards} of --mesh", what, todo)


def usable_shards(plan: Plan, most: int) -> list[int]:
    """Return the numbers of shards, up to `most`, that divide more work than they repeat.

    plan: of the model on one device, which splits what any number could.
    """
    counts = [1]
    for count in range(2, min(most, MOST) + 1):
        ways = find_ways(plan.classes, Divider(count, adapt=True))
        parts = {node: ways[node].parts for node in plan.axes if node in ways}
        if divided_work(plan, parts, count) > REPEATED:
            counts.append(count)
    return counts


def divided_work(plan: Plan, parts: Mapping[Node, int], shards: int) -> float:
    """Return the share of the FLOPs of `shards` devices that none of the others repeats.

    parts: of each class that is split.
    """
    find, whole, own = plan.classes.graph.find, 0.0, 0.0
    for dot in plan.classes.graph.dots:
        flops = dot.flops * dot.times
        whole += flops
        own += flops / max((parts.get(find(node), 1) for node in dot.dividing), default=1)
    return whole / (shards * own) if own else 1.0


def _size(plan: Plan, node: Node) -> int:
    """Return in how many parts `model` divides a class."""
    inner = inner_axes(plan.mesh)
    return math.prod(plan.mesh[axis] for axis in plan.axes[node] if axis in inner)
