"""Classes + mesh -> one PartitionSpec a parameter, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
import jax
from jax.sharding import PartitionSpec as P
from redco_new.sharding.activations import Layouts
from redco_new.sharding.classes import Classes
from redco_new.sharding.graph import Node
from redco_new.sharding.fused import Forward
from redco_new.sharding.divide import cut
from redco_new.sharding.divide import pad
from redco_new.sharding.divide import shard_shape
from redco_new.sharding.trace import Parameter
from redco_new.sharding.divide import Divider
import math
from redco_new.sharding.divide import MODEL
from redco_new.sharding.divide import model_axes
from redco_new.sharding.search import choose
from redco_new.sharding.search import find_conflicts
from redco_new.sharding.classes import find_classes
from redco_new.sharding.search import cost_model
from redco_new.sharding.explain import flaws
from redco_new.sharding.fused import Places
from redco_new.sharding.fused import find_fused
from redco_new.sharding.fused import take_apart
from redco_new.sharding.divide import DATA
from redco_new.sharding.divide import EXPERT
from redco_new.sharding.divide import FSDP
from redco_new.sharding.divide import Placement
from redco_new.sharding.divide import expert_axis
from redco_new.sharding.explain import Reasons
from redco_new.sharding.classes import label
from redco_new.sharding.classes import label_rest
from redco_new.sharding.trace import trace
from redco_new.sharding.rules import build_graph
from redco_new.sharding.divide import find_ways


@dataclass(frozen=True)
class Plan:
    """Where each parameter lives on a mesh.

    own_forward: what was planned, of parameters that are taken apart but not padded.
    specs, dims: trees of the parameters' structure, of PartitionSpecs and of tuples of class
    labels.  stored: the shape that each parameter has in memory: its own, or padded.
    moments: layouts of what an optimizer keeps of each parameter.
    layouts: of the values of the program.  divider: how sizes were divided.
    warnings: what the engine could not see through.
    """

    own_forward: Forward
    parameters: tuple[Parameter, ...]
    partitions: tuple[P, ...]
    moments: tuple[P, ...]
    stored: tuple[tuple[int, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    treedef: jax.tree_util.PyTreeDef
    layouts: Layouts
    divider: Divider
    warnings: tuple[str, ...]

    @property
    def mesh(self) -> dict[str, int]:
        """Axis -> size, as the specs name them: `model` may be taken apart (axes.py)."""
        return self.layouts.mesh

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """The axes that the first dim of the batch is split over."""
        return self.layouts.batch_axes

    @property
    def classes(self) -> Classes:
        """The classes of the program."""
        return self.layouts.classes

    @property
    def axes(self) -> Mapping[Node, tuple[str, ...]]:
        """The axes that divide each class that is split."""
        return self.layouts.axes

    @property
    def specs(self) -> Any:
        return jax.tree_util.tree_unflatten(self.treedef, self.partitions)

    @property
    def dims(self) -> Any:
        return jax.tree_util.tree_unflatten(self.treedef, self.labels)

    @property
    def activations(self) -> dict[str, P]:
        """The layout of each array that the model names (jax.ad_checkpoint.checkpoint_name)."""
        return self.layouts.named()

    def store(self, params: Any) -> Any:
        """The parameters of the model as they are stored: fused ones taken apart, odd ones padded."""
        leaves = zip(jax.tree.leaves(params), self.parameters, self.stored, strict=True)
        made = (pad(leaf.reshape(own.shape), stored) for leaf, own, stored in leaves)
        return jax.tree_util.tree_unflatten(self.treedef, list(made))

    def forward(self, params: Any, batch: Any) -> Any:
        """What the planned function computes, of parameters as they are stored."""
        leaves = zip(jax.tree.leaves(params), self.parameters, strict=True)
        made = (cut(leaf, own.shape) for leaf, own in leaves)
        return self.own_forward(jax.tree_util.tree_unflatten(self.treedef, list(made)), batch)

    def rows(self) -> list[dict[str, Any]]:
        """One dict a parameter.

        path, shape, dtype, dims, spec, stored_shape, shard_shape, bytes (of `shape`), reason. An
        entry of `spec` is None, an axis, or a list of axes.
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
    classes = find_classes(build_graph(traced, divider.parts), traced)
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
