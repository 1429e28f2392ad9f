"""A layout that was derived: where each parameter of a model lies on a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from redco_new.sharding.activations import Layouts
from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Node
from redco_new.sharding.fused import Forward
from redco_new.sharding.place import cut, pad, shard_shape
from redco_new.sharding.trace import Parameter
from redco_new.sharding.ways import Divider


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
