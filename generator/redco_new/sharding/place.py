"""Classes and the axes that divide them -> the layout of each parameter in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Node
from redco_new.sharding.roles import count

DATA, FSDP, EXPERT = "data", "fsdp", "expert"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """The layout of a model's parameters.

    mesh: axis -> size.  shapes: of the parameters.  axes: of each class that is split.
    padded: of some of these, the size that their dims have in memory.
    """

    classes: Classes
    mesh: Mapping[str, int]
    shapes: tuple[Shape, ...]
    axes: Mapping[Node, tuple[str, ...]]
    padded: Mapping[Node, int]

    def stored(self, index: int) -> Shape:
        """The shape of parameter `index` in memory."""
        dims = self.classes.parameter_dims[index]
        return tuple(
            self.padded.get(n, size) for n, size in zip(dims, self.shapes[index], strict=True)
        )

    def partition(self, index: int) -> P:
        """The axes of split classes, and `fsdp` on another dim of a matrix that divides."""
        dims, shape = self.classes.parameter_dims[index], self.shapes[index]
        entries = [self.axes.get(node, ()) for node in dims]
        if sum(node in self.order for node in dims) > 1:
            for node in self.order:
                if node in dims and not entries[i := dims.index(node)]:
                    if shape[i] > 1 and shape[i] % self.mesh[FSDP] == 0:
                        entries[i] = (FSDP,)
                        break
        return spec(entries)

    def moments(self, index: int) -> P:
        """The layout of what an optimizer keeps of parameter `index`, split over `data` too.

        `data` comes last on the dim whose part most powers of two divide, the longest of those: how
        many devices it will have may be open, and a padded vocabulary's part can be odd. ZeRO's
        first stage (Rajbhandari et al. 2020, section 5.1).
        """
        entries = [as_tuple(entry) for entry in self.partition(index)]
        held = shard_shape(self.stored(index), spec(entries), self.mesh)
        open_dims = [i for i, n in enumerate(self.classes.parameter_dims[index]) if n in self.order]
        fits = [i for i in open_dims if held[i] and held[i] % max(self.mesh[DATA], 2) == 0]
        if fits:
            best = max(fits, key=lambda i: (held[i] & -held[i], held[i]))
            entries[best] = (*entries[best], DATA)
        return spec(entries)

    @cached_property
    def order(self) -> list[Node]:
        """Classes that fsdp may split, the one that most parameters have first; no loop's."""
        counts = count(self.classes)
        unlooped = counts.keys() - self.classes.scanned - self.classes.windows
        return sorted(unlooped, key=lambda n: (-counts[n], self.classes.order[n]))


def expert_axis(classes: Classes, size: int) -> dict[Node, tuple[str, ...]]:
    """The classes of experts that the axis `expert`, of `size` devices, divides."""
    experts = (node for node, label in classes.labels.items() if label == "experts")
    return {
        n: (EXPERT,) for n in experts if size > 1 and all(k % size == 0 for k in classes.sizes[n])
    }


def spec(entries: list[tuple[str, ...]]) -> P:
    """A PartitionSpec: None, an axis, or a tuple of axes for each dim."""
    return P(*(axes if len(axes) > 1 else axes[0] if axes else None for axes in entries))


def as_tuple(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The axes of one entry of a PartitionSpec."""
    return (entry,) if isinstance(entry, str) else entry or ()


def shard_shape(shape: Shape, spec: P, mesh: Mapping[str, int]) -> list[int]:
    """The shape of one device's part."""
    parts = [math.prod(mesh[axis] for axis in as_tuple(entry)) for entry in spec]
    return [size // part for size, part in zip(shape, parts, strict=True)]


def pad(x: jax.Array, shape: Shape) -> jax.Array:
    """`x` in a larger shape, zeros added at the end of each dim."""
    added = [(0, size - own) for size, own in zip(shape, x.shape, strict=True)]
    return jnp.pad(x, added) if x.shape != shape else x


def cut(x: jax.Array, shape: Shape) -> jax.Array:
    """What `pad` was given."""
    return jax.lax.slice(x, [0] * x.ndim, shape)
