"""What a device computes and moves through its memory in a step, from the plan; no compiler is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jax.extend.core import Jaxpr, jaxprs_in_params

from redco_new.search.model import Planned
from redco_new.sharding import Plan


@dataclass(frozen=True)
class Work:
    """What a device does in one forward pass of a micro-batch.

    flops: of its products, without attention's.
    attention: FLOPs of products of two activations, scores and what is taken by them, with all pairs of positions.
    scores: bytes of the largest of these arrays, of all layers.
    touched: bytes of the activations that products read and write, each counted once.
    """

    flops: float
    attention: float
    scores: float
    touched: float


def work_of(model: Planned, rows: int) -> Work:
    """Return the work of `rows` examples over all devices."""
    plan, (traced_rows, traced_length) = model.plan, model.traced
    longer = model.length / traced_length
    share, chosen = rows / traced_rows, chosen_experts(plan.jaxpr)
    flops = attention = scores = 0.0
    touched: dict[int, float] = {}
    for dot in plan.classes.graph.dots:
        sides = (dot.lhs, dot.rhs, dot.out)
        work = share * dot.flops * dot.times / _parts(plan, dot.dividing, True)
        if dot.batch and all(value.data and value.parameter is None for value in sides):
            attention += work * longer**2
            largest = max(sides, key=lambda value: value.bytes)
            scores += share * largest.bytes * dot.times / _split(plan, largest) * longer**2
            continue
        part = chosen if _has_experts(plan, dot.dividing) else 1.0
        flops += work * longer * part
        for value in sides:
            if value.data:
                size = share * longer * value.bytes * dot.times / _split(plan, value)
                touched[value.key] = max(touched.get(value.key, 0.0), size)
    return Work(flops, attention, scores, sum(touched.values()))


def chosen_experts(jaxpr: Jaxpr) -> float:
    """Return the share of a model's experts that a token is computed by: 1 where a model has none.

    The program that is planned has every expert compute every token; on an accelerator the chosen ones do.
    """
    shares = [eqn.params["k"] / eqn.invars[0].aval.shape[-1] for eqn in _choices(jaxpr)]
    return min(shares, default=1.0)


def _choices(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the equations that choose the largest of some."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "top_k":
            yield eqn
        for body in jaxprs_in_params(eqn.params):
            yield from _choices(body)


def _has_experts(plan: Plan, nodes: Iterable[int]) -> bool:
    """Return whether one of the dims is of experts, and not merely routed to."""
    find, labels = plan.classes.graph.find, plan.classes.labels
    names = {labels.get(find(node)) for node in nodes}
    return {"experts", "mlp"} <= names


def _split(plan: Plan, value: Any) -> int:
    """Return over how many devices an activation is split."""
    return _parts(plan, value.dims, value.data)


def _parts(plan: Plan, nodes: Iterable[int], data: bool) -> int:
    """Return over how many devices an array, or a product, with these dims is split."""
    find = plan.classes.graph.find
    axes = {axis for node in nodes for axis in plan.axes.get(find(node), ())}
    return math.prod(plan.mesh[axis] for axis in axes | ({*plan.batch_axes} if data else set()))
