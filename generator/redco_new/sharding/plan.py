"""Classes + mesh -> one PartitionSpec a parameter, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from redco_new.sharding.activations import Layouts
from redco_new.sharding.axes import MODEL, model_axes
from redco_new.sharding.choose import choose, find_conflicts
from redco_new.sharding.classes import Classes, find_classes
from redco_new.sharding.cost import cost_model
from redco_new.sharding.dims import Node
from redco_new.sharding.place import DATA, EXPERT, FSDP, Placement, expert_axis, shard_shape
from redco_new.sharding.reasons import Reasons
from redco_new.sharding.roles import label, label_rest
from redco_new.sharding.trace import Parameter, trace
from redco_new.sharding.walk import build_graph
from redco_new.sharding.ways import Divider, find_ways


@dataclass(frozen=True)
class Plan:
    """Where each parameter lives on a mesh.

    mesh: axis -> size, as the specs name them: `model` may be taken apart (axes.py).
    specs, dims: trees of the parameters' structure, of PartitionSpecs and of tuples of class
    labels.  stored: the shape that each parameter has in memory: its own, or padded.
    moments: layouts of what an optimizer keeps of each parameter.
    batch_axes: axes that the first dim of the batch is split over.
    classes, axes: the classes of the program, and the axes that divide each of them.
    layouts: of the values of the program.  divider: how sizes were divided.
    warnings: what the engine could not see through.
    """

    mesh: dict[str, int]
    parameters: tuple[Parameter, ...]
    partitions: tuple[P, ...]
    moments: tuple[P, ...]
    stored: tuple[tuple[int, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    treedef: jax.tree_util.PyTreeDef
    batch_axes: tuple[str, ...]
    classes: Classes
    axes: dict[Node, tuple[str, ...]]
    layouts: Layouts
    divider: Divider
    warnings: tuple[str, ...]

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
    forward: Callable[[Any, Any], Any],
    params: Any,
    batch: Any,
    mesh: Mapping[str, int],
    *,
    adapt: bool = False,
    sequence_parallel: bool = False,
    zero: int = 0,
) -> Plan:
    """Derive a layout from the computation `forward(params, batch)`.

    params, batch: trees of arrays or ShapeDtypeStructs; nothing is computed or allocated.
    mesh: sizes of the axes "data", "fsdp", "expert" and "model"; one left out has size 1.
    adapt: a dim that does not divide by `model` is not left whole if it can be padded, or be
    split over a part of `model`; then `stored` and `mesh` of the plan differ from what was given.
    sequence_parallel: between the products that `model` splits, it splits the sequence.
    zero: 1 to split what the optimizer keeps of a parameter over `data` too.
    """
    sizes = {DATA: 1, FSDP: 1, MODEL: 1, **mesh}
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
    reasons = Reasons(classes, traced, frozenset(axes | own), ways, sizes[MODEL])
    return Plan(
        mesh=plan_mesh,
        parameters=traced.parameters,
        partitions=tuple(map(place.partition, indices)),
        moments=tuple(map(place.moments if zero else place.partition, indices)),
        stored=tuple(map(place.stored, indices)),
        labels=tuple(tuple(classes.labels[n] for n in dims) for dims in classes.parameter_dims),
        reasons=tuple(map(reasons.of, indices)),
        treedef=traced.treedef,
        batch_axes=batch_axes,
        classes=classes,
        axes=axes | own,
        layouts=Layouts(classes, plan_mesh, axes | own, batch_axes, sequence_parallel),
        divider=divider,
        warnings=tuple(
            f"no sharding rule for the primitive {name} ({source}): its arrays are left whole"
            for name, source in classes.graph.unknown.items()
        ),
    )
