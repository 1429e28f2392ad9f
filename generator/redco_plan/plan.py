"""Classes + mesh -> the plan: one PartitionSpec a parameter, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
from jax.extend.core import Jaxpr
from jax.sharding import PartitionSpec as P

from redco_plan.activations import Layouts
from redco_plan.classes import Classes, Whole, find_classes, label_by_layout
from redco_plan.cost import cost_model
from redco_plan.divide import Divider, find_ways
from redco_plan.placement import (
    DATA,
    EXPERT,
    FSDP,
    MODEL,
    STAGE,
    Axes,
    Placement,
    Shape,
    cut_to,
    expert_axes,
    model_axes,
    pad_to,
    shard_shape,
)
from redco_plan.explain import Reasons, layout_warnings
from redco_plan.fused import find_fused, is_rewritten
from redco_plan.graph import Node
from redco_plan.apart.run import run_apart
from redco_plan.apart.stored import Apart, Fused, take_apart
from redco_plan.rules import build_graph
from redco_plan.search import choose_classes, find_conflicts
from redco_plan.trace import Forward, Parameter, Tree, trace


@dataclass(frozen=True)
class Plan:
    """Where each parameter lives on a mesh.

    own_forward: what was planned, of parameters that are taken apart but not padded.
    apart: the model's parameters that are stored as several, in the places of their paths.
    parameters: in the order of the leaves of their tree; so are the next five.
    partitions: the layout of each.
    moments: the layout of what an optimizer keeps of each.
    stored: the shape that each has in memory: its own, or padded.
    labels: the class label of each dim of each.
    reasons: why each lies where it does.
    treedef: the structure of the parameter tree.
    layouts: of the values of the program.
    divider: how sizes were divided.
    warnings: what the engine could not see through.
    frozen: paths of parameters that have neither gradients nor moments.
    across: the dtype in which gradients go over `data` once a step, added up in float32; "" for as they are, in each pass.
    rewritten: whether it is of the program in a form of its own.
    """

    own_forward: Forward
    apart: Apart
    parameters: tuple[Parameter, ...]
    partitions: tuple[P, ...]
    moments: tuple[P, ...]
    stored: tuple[Shape, ...]
    labels: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    treedef: jax.tree_util.PyTreeDef
    layouts: Layouts
    divider: Divider
    warnings: tuple[str, ...]
    frozen: frozenset[str] = frozenset()
    across: str = ""
    rewritten: bool = False

    @property
    def mesh(self) -> dict[str, int]:
        """Axis -> size, as the specs name them: `model` may be taken apart (divide.model_axes)."""
        return self.layouts.mesh

    @property
    def batch_axes(self) -> Axes:
        """The axes that the first dim of the batch is split over."""
        return self.layouts.batch_axes

    @property
    def classes(self) -> Classes:
        """The classes of the program."""
        return self.layouts.classes

    @property
    def axes(self) -> Mapping[Node, Axes]:
        """The axes that divide each class that is split."""
        return self.layouts.axes

    @property
    def specs(self) -> Any:
        """The PartitionSpec of each parameter, a tree of the parameters' structure."""
        return jax.tree_util.tree_unflatten(self.treedef, self.partitions)

    @property
    def dims(self) -> Any:
        """The labels of the dims of each parameter, a tree of the parameters' structure."""
        return jax.tree_util.tree_unflatten(self.treedef, self.labels)

    @property
    def activations(self) -> dict[str, P]:
        """The layout of each array that the model names (jax.ad_checkpoint.checkpoint_name)."""
        return self.layouts.by_name(self.partitions)

    @property
    def jaxpr(self) -> Jaxpr:
        """The program that was planned."""
        return self.classes.graph.bodies[0].jaxpr

    def store(self, params: Tree) -> Tree:
        """Return the model's parameters as they are stored: fused ones apart, odd ones padded."""
        leaves = zip(jax.tree.leaves(take_apart(params, self.apart)), self.stored, strict=True)
        arrays = [pad_to(leaf, stored) for leaf, stored in leaves]
        return jax.tree_util.tree_unflatten(self.treedef, arrays)

    def forward(self, params: Tree, batch: Tree) -> Tree:
        """Return what the planned function computes, of parameters as they are stored."""
        leaves = zip(jax.tree.leaves(params), self.parameters, strict=True)
        arrays = [cut_to(leaf, own.shape) for leaf, own in leaves]
        return self.own_forward(jax.tree_util.tree_unflatten(self.treedef, arrays), batch)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict a parameter.

        path: its keys, joined by "/".
        shape, dtype: of the parameter.
        dims: the label of each dim.
        spec: None, an axis, or a list of axes for each dim.
        stored_shape: of the array in memory, which may be padded.
        shard_shape: of one device's part of that.
        bytes: of `shape`.
        reason: why it lies there.
        """
        return [
            {
                "path": parameter.path,
                "shape": list(parameter.shape),
                "dtype": str(parameter.dtype),
                "dims": list(labels),
                "spec": [list(axes) if isinstance(axes, tuple) else axes for axes in spec],
                "stored_shape": list(stored),
                "shard_shape": shard_shape(stored, spec, self.mesh),
                "bytes": parameter.bytes,
                "reason": reason,
            }
            for parameter, spec, stored, labels, reason in zip(
                self.parameters,
                self.partitions,
                self.stored,
                self.labels,
                self.reasons,
                strict=True,
            )
        ]


def plan_sharding(
    forward: Forward,
    params: Tree,
    batch: Tree,
    mesh: Mapping[str, int],
    *,
    adapt: bool = False,
    apart: bool = False,
    sequence_parallel: bool = False,
    zero: int = 0,
    ring: bool = False,
) -> Plan:
    """Derive a layout from the computation `forward(params, batch)`.

    params, batch: trees of arrays or ShapeDtypeStructs; nothing is computed or allocated.
    mesh: sizes of the axes "stage", "data", "fsdp", "expert", "context" and "model"; one left out has size 1.
    adapt: a dim that does not divide by `model` is not left whole if it can be padded, or be
        split over a part of `model`; then `stored` and `mesh` of the plan are not the model's own
        shapes and the argument `mesh`.
    apart: a kernel that is fused of several (q, k and v; gate and up) is stored as a tuple of them,
        so that each device has its share of every one, and heads that the model merges with the rows
        of the batch are computed apart from these.
    sequence_parallel: between the products that `model` splits, it splits the sequence.
    zero: 1 to split what the optimizer keeps of a parameter over `data` too.
    ring: `context` splits positions where they mix, too: keys and values go from device to device.

    Raises ShardingError, which names the line of the model, if it cannot be traced.
    """
    first = {STAGE: mesh[STAGE]} if STAGE in mesh else {}
    sizes = {**first, DATA: 1, FSDP: 1, MODEL: 1, **mesh}
    options = Options(sizes, adapt, sequence_parallel, zero, ring)
    plan = _derive(forward, params, batch, options, {}, {})
    if not apart:
        return plan
    whole: dict[str, Whole] = {}
    fused, rewritten = find_fused(plan.classes, plan.parameters), is_rewritten(plan.classes)
    while fused or rewritten:
        parts = jax.eval_shape(partial(take_apart, apart=fused), params)
        run = partial(run_apart, forward, form=Fused(fused))
        plan = _derive(run, parts, batch, options, fused, whole)
        if not (found := _find_whole(plan)):
            return replace(plan, rewritten=True)
        whole |= found
        fused = {path: parts for path, parts in fused.items() if path not in found}
    return _derive(forward, params, batch, options, {}, whole) if whole else plan


def _find_whole(plan: Plan) -> dict[str, Whole]:
    """Return the parameters taken apart of which no part is split over more devices than one.

    They are stored as one again, and that is as whole as its parts: shards that end elsewhere than these are sent.
    """
    dims = zip(plan.parameters, plan.classes.parameter_dims, strict=True)
    by_path = {parameter.path: nodes for parameter, nodes in dims}
    found = {}
    for path, (dim, sizes) in plan.apart.items():
        parts = dict.fromkeys(by_path[f"{path}/{i}"][dim] for i in range(len(sizes)))
        if not parts.keys() & plan.axes.keys():
            names = dict.fromkeys(plan.classes.labels[node] for node in parts)
            found[path] = (dim, f"none of its parts ({', '.join(names)}) is")
    return found


@dataclass(frozen=True)
class Options:
    """The options of plan_sharding.

    mesh: axis -> size, all but "stage", "expert" and "context" always there.
    """

    mesh: Mapping[str, int]
    adapt: bool
    sequence_parallel: bool
    zero: int
    ring: bool = False


def _derive(
    forward: Forward,
    params: Tree,
    batch: Tree,
    options: Options,
    apart: Apart,
    whole: Mapping[str, Whole],
) -> Plan:
    """Return the plan of a program as it is.

    apart: parameters that were taken apart.
    whole: as for find_classes.
    """
    sizes = options.mesh
    program = trace(forward, params, batch)
    divider = Divider(sizes[MODEL], options.adapt)
    classes = find_classes(build_graph(program, divider.parts), program, whole)

    ways = find_ways(classes, divider)
    own = expert_axes(classes, sizes.get(EXPERT, 1))
    free = {node: way for node, way in ways.items() if not way.obstacle and node not in own}
    parts = {node: way.parts for node, way in free.items() if way.parts < sizes[MODEL]}
    order = (STAGE, DATA, FSDP, EXPERT)
    batch_axes = tuple(axis for axis in order if axis in sizes)
    rows = math.prod(sizes[axis] for axis in batch_axes)
    # Priced for two shards at least, so that a mesh of size 1 has the layout that can grow.
    prices = cost_model(classes, program, max(sizes[MODEL], 2), parts, rows)
    split = choose_classes(prices, find_conflicts(classes, frozenset(free)))
    label_by_layout(classes, {*split, *own})

    over, split_axes = model_axes(sizes[MODEL], {node: free[node].parts for node in split})
    mesh = {axis: size for axis, size in sizes.items() if axis != MODEL} | over
    axes = split_axes | own
    padding = {node: free[node].stored for node in split if free[node].stored}
    shapes = tuple(parameter.shape for parameter in program.parameters)
    placement = Placement(classes, mesh, shapes, axes, padding)
    reasons = Reasons(
        classes, program, frozenset(axes), ways, sizes[MODEL], apart, placement.routers
    )
    indices = range(len(shapes))
    moments = placement.moments if options.zero else placement.partition
    return Plan(
        own_forward=forward,
        apart=apart,
        parameters=program.parameters,
        partitions=tuple(map(placement.partition, indices)),
        moments=tuple(map(moments, indices)),
        stored=tuple(map(placement.stored, indices)),
        labels=tuple(tuple(classes.labels[n] for n in dims) for dims in classes.parameter_dims),
        reasons=tuple(map(reasons.of, indices)),
        treedef=program.treedef,
        layouts=Layouts(classes, mesh, axes, batch_axes, options.sequence_parallel, options.ring),
        divider=divider,
        warnings=tuple(layout_warnings(classes, mesh, split_axes)),
    )
