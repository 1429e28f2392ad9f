"""What a device computes and moves through its memory in a step, from the plan; no compiler is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redco_plan import Plan, token_axes

from redco_fit.search.experts import Routed, routed_product
from redco_fit.search.model import Planned


@dataclass(frozen=True)
class Work:
    """What a device does in one forward pass of a micro-batch.

    flops: of its products, without attention's and experts'.  layers: of those, of layers in a loop with their kernels.
    attention: FLOPs of products of two activations, scores and what is taken by them, with all pairs of positions.
    scores: bytes of the largest of these arrays, of all layers.  head: features of one of its heads, of the narrowest.
    touched: bytes of the activations that they read and write, each counted once.
    routed: the products of experts.  frozen: FLOPs of those whose kernels are not trained, and have no gradients.
    """

    flops: float
    attention: float
    scores: float
    touched: float
    routed: tuple[Routed, ...] = ()
    layers: float = 0.0
    frozen: float = 0.0
    head: int = 0


def work_of(model: Planned, rows: int, platform: str) -> Work:
    """Return the work of `rows` examples over all devices of a platform, gpu or tpu."""
    plan, (traced_rows, traced_length) = model.plan, model.traced
    share, longer = rows / traced_rows, model.length / traced_length
    flops = attention = scores = layers = frozen = 0.0
    touched: dict[int, float] = {}
    routed, heads = [], []
    for dot in plan.classes.graph.dots:
        sides = (dot.lhs, dot.rhs, dot.out)
        if one := routed_product(model, dot, rows, platform):
            routed.append(one)
            continue
        work = share * dot.flops * dot.times / _parts(plan, dot.dividing, True)
        if dot.batch and all(value.data and value.parameter is None for value in sides):
            attention += work * longer**2
            largest = max(sides, key=lambda value: value.bytes)
            scores += share * largest.bytes * dot.times / _split(plan, largest) * longer**2
            find, sizes = plan.classes.graph.find, plan.classes.graph.sizes
            outer = {find(node) for node in largest.dims}
            inner = {*dot.lhs.dims, *dot.rhs.dims, *dot.out.dims}
            heads += [sizes[node] for node in inner if find(node) not in outer]
            continue
        flops += work * longer
        own = [plan.classes.parameter_dims[x.parameter] for x in sides if x.parameter is not None]
        layers += work * longer if any(layers_of(plan, dims) > 1 for dims in own) else 0.0
        frozen += work * longer if any(_is_frozen(plan, value) for value in sides) else 0.0
        for value in sides:
            if value.data:
                size = share * longer * value.bytes * dot.times / _split(plan, value)
                touched[value.key] = max(touched.get(value.key, 0.0), size)
    every = sum(touched.values())
    return Work(
        flops, attention, scores, every, tuple(routed), layers, frozen, min(heads, default=0)
    )


def _is_frozen(plan: Plan, value: Any) -> bool:
    """Return whether an array is a kernel that is not trained, or is read of one's codes."""
    if value.data:
        return False
    if value.parameter is None:
        return bool(plan.frozen)
    return plan.parameters[value.parameter].path in plan.frozen


def layers_of(plan: Plan, dims: Sequence[int]) -> int:
    """Return of how many layers a parameter has a part each, which a loop runs over."""
    return math.prod(max(plan.classes.sizes[node]) for node in dims if node in plan.classes.loops)


def _split(plan: Plan, value: Any) -> int:
    """Return over how many devices an activation is split."""
    return _parts(plan, value.dims, value.data)


def _parts(plan: Plan, nodes: Iterable[int], data: bool) -> int:
    """Return over how many devices an array, or a product, with these dims is split."""
    find = plan.classes.graph.find
    axes = {axis for node in nodes for axis in plan.axes.get(find(node), ())}
    return math.prod(plan.mesh[axis] for axis in axes | ({*token_axes(plan)} if data else set()))
