"""Classes + mesh -> one PartitionSpec a parameter, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from redco_new.sharding.choose import candidates, choose, find_conflicts
from redco_new.sharding.classes import Classes, find_classes
from redco_new.sharding.cost import cost_model
from redco_new.sharding.dims import Node
from redco_new.sharding.reasons import Reasons
from redco_new.sharding.roles import label, label_rest
from redco_new.sharding.trace import Parameter, trace
from redco_new.sharding.walk import build_graph

MODEL, FSDP = "model", "fsdp"


@dataclass(frozen=True)
class Plan:
    """Where each parameter lives on a mesh.

    mesh: axis name -> size.  specs, dims: trees of the parameters' structure, of PartitionSpecs
    and of tuples of class labels.  warnings: what the engine could not see through.
    """

    mesh: dict[str, int]
    parameters: tuple[Parameter, ...]
    partitions: tuple[P, ...]
    labels: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    treedef: jax.tree_util.PyTreeDef
    warnings: tuple[str, ...]

    @property
    def specs(self) -> Any:
        return jax.tree_util.tree_unflatten(self.treedef, self.partitions)

    @property
    def dims(self) -> Any:
        return jax.tree_util.tree_unflatten(self.treedef, self.labels)

    def rows(self) -> list[dict[str, Any]]:
        """One dict a parameter: path, shape, dtype, dims, spec, shard_shape, bytes, reason."""
        return [
            {
                "path": parameter.path,
                "shape": list(parameter.shape),
                "dtype": str(parameter.dtype),
                "dims": list(labels),
                "spec": list(spec),
                "shard_shape": shard_shape(parameter.shape, spec, self.mesh),
                "bytes": parameter.bytes,
                "reason": reason,
            }
            for parameter, spec, labels, reason in zip(
                self.parameters, self.partitions, self.labels, self.reasons, strict=True
            )
        ]


def shard_shape(shape: tuple[int, ...], spec: P, mesh: Mapping[str, int]) -> list[int]:
    """The shape of one device's part."""
    return [size // mesh[axis] if axis else size for size, axis in zip(shape, spec, strict=True)]


def plan_sharding(
    forward: Callable[[Any, Any], Any], params: Any, batch: Any, mesh: Mapping[str, int]
) -> Plan:
    """Derive a layout from the computation `forward(params, batch)`.

    params, batch: trees of arrays or ShapeDtypeStructs; nothing is computed or allocated.
    mesh: sizes of the axes "data", "fsdp" and "model"; an axis left out has size 1.
    """
    mesh = {"data": 1, FSDP: 1, MODEL: 1, **mesh}
    traced = trace(forward, params, batch)
    classes = find_classes(build_graph(traced, mesh[MODEL]), traced)
    label(classes)
    obstacles = candidates(classes, mesh[MODEL])
    free = {node for node, obstacle in obstacles.items() if not obstacle}
    # Priced for two shards at least, so that a mesh of size 1 has the layout that can grow.
    prices = cost_model(classes, traced, max(mesh[MODEL], 2))
    split = choose(prices, find_conflicts(classes, free))
    label_rest(classes, split)
    order = fsdp_order(classes)
    partitions = tuple(
        partition(dims, parameter, split, order, mesh[FSDP])
        for dims, parameter in zip(classes.parameter_dims, traced.parameters, strict=True)
    )
    reasons = Reasons(classes, traced, split, obstacles)
    return Plan(
        mesh=mesh,
        parameters=traced.parameters,
        partitions=partitions,
        labels=tuple(tuple(classes.labels[n] for n in dims) for dims in classes.parameter_dims),
        reasons=tuple(reasons.of(i) for i in range(len(partitions))),
        treedef=traced.treedef,
        warnings=tuple(
            f"no sharding rule for the primitive {name} ({source}): its arrays are left whole"
            for name, source in classes.graph.unknown.items()
        ),
    )


def fsdp_order(classes: Classes) -> list[Node]:
    """Classes that fsdp may split, the one that most parameters have first; no loop's."""
    counts = Counter(n for dims in classes.parameter_dims for n in set(dims))
    unlooped = counts.keys() - classes.scanned - classes.windows
    return sorted(unlooped, key=lambda n: (-counts[n], classes.order[n]))


def partition(
    dims: tuple[Node, ...], parameter: Parameter, split: frozenset[Node], order: list[Node], n: int
) -> P:
    """`model` on the dim whose class is split, `fsdp` on another one of a matrix that divides."""
    axes: list[str | None] = [MODEL if node in split else None for node in dims]
    unscanned = [node for node in dims if node in order]
    if len(unscanned) > 1:
        for node in order:
            open_dims = [i for i, other in enumerate(dims) if other == node and axes[i] is None]
            size = parameter.shape[open_dims[0]] if open_dims else 1
            if size > 1 and size % n == 0:
                axes[open_dims[0]] = FSDP
                break
    return P(*axes)
