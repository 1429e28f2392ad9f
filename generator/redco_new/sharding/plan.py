"""Classes + mesh -> one PartitionSpec a parameter, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


from redco_new.sharding.activations import Layouts
from redco_new.sharding.axes import MODEL, model_axes
from redco_new.sharding.choose import choose, find_conflicts
from redco_new.sharding.classes import find_classes
from redco_new.sharding.cost import cost_model
from redco_new.sharding.flaws import flaws
from redco_new.sharding.fused import Forward, Places, find_fused, take_apart
from redco_new.sharding.planned import Plan
from redco_new.sharding.place import (
    DATA,
    EXPERT,
    FSDP,
    Placement,
    expert_axis,
)
from redco_new.sharding.reasons import Reasons
from redco_new.sharding.roles import label, label_rest
from redco_new.sharding.trace import trace
from redco_new.sharding.walk import build_graph
from redco_new.sharding.ways import Divider, find_ways


def plan_sharding(
    forward: Forward,
    params: Any,
    batch: Any,
    mesh: Mapping[str, int],
    *,
    adapt: bool = False,
    apart: bool = False,
    sequence_parallel: bool = False,
    zero: int = 0,
) -> Plan:
    """Derive a layout from the computation `forward(params, batch)`.

    params, batch: trees of arrays or ShapeDtypeStructs; nothing is computed or allocated.
    mesh: sizes of the axes "data", "fsdp", "expert" and "model"; one left out has size 1.
    adapt: a dim that does not divide by `model` is not left whole if it can be padded, or be
    split over a part of `model`; then `stored` and `mesh` of the plan differ from what was given.
    apart: a kernel that is fused of equal parts (q, k and v; gate and up) is stored with them
    apart, so that each device holds its share of every part.
    sequence_parallel: between the products that `model` splits, it splits the sequence.
    zero: 1 to split what the optimizer keeps of a parameter over `data` too.
    """
    sizes = {DATA: 1, FSDP: 1, MODEL: 1, **mesh}
    options = {"adapt": adapt, "sequence_parallel": sequence_parallel, "zero": zero}
    plan = derive(forward, params, batch, sizes, **options)
    if apart and (places := find_fused(plan.classes)):
        plan = derive(*take_apart(forward, params, places), batch, sizes, places, **options)
    return plan


def derive(
    forward: Forward,
    params: Any,
    batch: Any,
    sizes: Mapping[str, int],
    places: Places | None = None,
    *,
    adapt: bool,
    sequence_parallel: bool,
    zero: int,
) -> Plan:
    """The plan of a program as it is. places: parameters that were taken apart, for the reasons."""
    traced = trace(forward, params, batch)
    # Priced for two shards at least, so that a mesh of size 1 has the layout that can grow.
    n = max(sizes[MODEL], 2)
    divider = Divider(sizes[MODEL], adapt)
    classes = find_classes(build_graph(traced, divider), traced)
    label(classes)
    ways = find_ways(classes, divider)
    own = expert_axis(classes, sizes.get(EXPERT, 1))
    free = {node: way for node, way in ways.items() if not way.obstacle and node not in own}
    parts = {node: way.parts for node, way in free.items() if way.parts < sizes[MODEL]}
    batch_axes = (DATA, FSDP, *((EXPERT,) if EXPERT in sizes else ()))
    prices = cost_model(classes, traced, n, parts, math.prod(sizes[axis] for axis in batch_axes))
    split = choose(prices, find_conflicts(classes, frozenset(free)))
    label_rest(classes, {*split, *own})
    over, axes = model_axes(sizes[MODEL], {node: free[node].parts for node in split})
    plan_mesh = {a: k for a, k in sizes.items() if a != MODEL} | over
    padded = {node: free[node].stored for node in split if free[node].stored}
    shapes = tuple(parameter.shape for parameter in traced.parameters)
    place = Placement(classes, plan_mesh, shapes, axes | own, padded)
    indices = range(len(shapes))
    reasons = Reasons(classes, traced, frozenset(axes | own), ways, sizes[MODEL], places or {})
    return Plan(
        own_forward=forward,
        parameters=traced.parameters,
        partitions=tuple(map(place.partition, indices)),
        moments=tuple(map(place.moments if zero else place.partition, indices)),
        stored=tuple(map(place.stored, indices)),
        labels=tuple(tuple(classes.labels[n] for n in dims) for dims in classes.parameter_dims),
        reasons=tuple(map(reasons.of, indices)),
        treedef=traced.treedef,
        layouts=Layouts(classes, plan_mesh, axes | own, batch_axes, sequence_parallel),
        divider=divider,
        warnings=tuple(flaws(classes, plan_mesh, axes)),
    )
