"""Classes that are split -> mesh axes, and one PartitionSpec a parameter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from redco_plan.classes import Classes, parameters_per_class, routers, weights_of
from redco_plan.graph import Node

# The mesh axes. `model` splits layers, `context` positions, the others the rows of the batch; `fsdp` and
# `context` also split a dim of each parameter, `expert` the experts, `stage` stacks of layers, and what is in none as
# `fsdp` does.
DATA, FSDP, EXPERT, CONTEXT, MODEL = "data", "fsdp", "expert", "context", "model"
STAGE = "stage"

Axes = tuple[str, ...]
Shape = tuple[int, ...]


def model_axes(n: int, parts: Mapping[Node, int]) -> tuple[dict[str, int], dict[Node, Axes]]:
    """Return axis -> size, and the axes that divide each class: their sizes multiply to its parts.

    n: devices that split a layer.
    parts: of each class that is split; each divides `n`.

    If all classes have `n` parts there is one axis, `model`. If 2 kv heads are split over 8
    devices, and 12 heads, and an mlp, there are `model_1` (all three), `model_2` (heads and mlp)
    and `model_3` (mlp). The axes with the most classes come first, so that a run of heads lies
    where its kv head lies.
    """
    users: dict[frozenset[Node], int] = defaultdict(lambda: 1)
    for prime, power in _prime_powers(n):
        users[frozenset(node for node, k in parts.items() if k % prime**power == 0)] *= prime
    groups = sorted(users.items(), key=lambda group: -len(group[0]))
    if len(groups) < 2:
        return {MODEL: n}, dict.fromkeys(parts, (MODEL,))
    names = [f"{MODEL}_{i}" for i in range(1, len(groups) + 1)]
    sizes = {name: size for name, (_, size) in zip(names, groups, strict=True)}
    axes = {
        node: tuple(name for name, (group, _) in zip(names, groups, strict=True) if node in group)
        for node in parts
    }
    return sizes, axes


def inner_axes(mesh: Iterable[str]) -> Axes:
    """Return the axes of a mesh that split a layer: `model`, or those it is taken apart into."""
    return tuple(axis for axis in mesh if axis.split("_")[0] == MODEL)


def fsdp_axes(mesh: Iterable[str]) -> Axes:
    """Return the axes of a mesh that split a dim of each parameter: a device gathers it to compute with it."""
    return tuple(axis for axis in mesh if axis in (STAGE, FSDP, CONTEXT))


def _prime_powers(n: int) -> Iterator[tuple[int, int]]:
    """Yield (prime, power) of `n`, each power counted up: 12 gives 2^1, 2^2, 3^1."""
    prime = 2
    while n > 1:
        power = 0
        while n % prime == 0:
            n, power = n // prime, power + 1
            yield prime, power
        prime += 1


def expert_axes(classes: Classes, size: int) -> dict[Node, Axes]:
    """Return the axes of the classes of experts that the axis `expert`, of `size`, divides."""
    experts = (node for node, label in classes.labels.items() if label == "experts")
    return {
        n: (EXPERT,) for n in experts if size > 1 and all(k % size == 0 for k in classes.sizes[n])
    }


@dataclass(frozen=True)
class Placement:
    """The layout of a model's parameters.

    mesh: axis -> size.
    shapes: of the parameters.
    axes: of each class that is split.
    padding: of some of these, the size that their dims have in memory.
    """

    classes: Classes
    mesh: Mapping[str, int]
    shapes: tuple[Shape, ...]
    axes: Mapping[Node, Axes]
    padding: Mapping[Node, int]

    def stored(self, index: int) -> Shape:
        """Return the shape of parameter `index` in memory."""
        dims = self.classes.parameter_dims[index]
        return tuple(
            self.padding.get(n, size) for n, size in zip(dims, self.shapes[index], strict=True)
        )

    def partition(self, index: int) -> P:
        """Return the axes of split classes, and `fsdp` on another dim of a matrix that divides.

        Of a stack of layers `stage` splits these, and nothing else. Of kernels of experts fsdp divides these, if it can:
        their rows are gathered as they lie. Each row is routed where it lies, so over `expert`, which splits rows too,
        a router is whole.
        """
        dims, shape = self.classes.parameter_dims[index], self.shapes[index]
        whole = self.experts if index in self.routers else ()
        entries = [() if node in whole else self.axes.get(node, ()) for node in dims]
        over = fsdp_axes(self.mesh)
        if STAGE in self.mesh and (loops := [n in self.classes.loops for n in dims]).count(True):
            entries[loops.index(True)] = (STAGE,)
            over = tuple(axis for axis in over if axis != STAGE)
        parts = math.prod(self.mesh[axis] for axis in over)
        if (i := self._experts_dim(index)) is not None and not self._is_stuck(dims[i], entries[i]):
            if shape[i] % math.prod(self.mesh[axis] for axis in (*entries[i], *over)) == 0:
                entries[i] = (*entries[i], *over)
                return partition_spec(entries)
        if sum(node in self._fsdp_order for node in dims) > 1:
            for node in self._fsdp_order:
                if node in dims and not entries[i := dims.index(node)]:
                    if shape[i] > 1 and shape[i] % parts == 0:
                        entries[i] = over
                        break
        return partition_spec(entries)

    def moments(self, index: int) -> P:
        """Return the layout of what an optimizer keeps of parameter `index`: over `data` too.

        `data` comes last on the dim whose part most powers of two divide, the longest of those: how
        many devices it will have may be open, and a padded vocabulary's part can be odd. ZeRO's
        first stage (Rajbhandari et al. 2020, section 5.1).
        """
        dims = self.classes.parameter_dims[index]
        entries = [axes_of_entry(entry) for entry in self.partition(index)]
        shard = shard_shape(self.stored(index), partition_spec(entries), self.mesh)
        free = [i for i, node in enumerate(dims) if node in self._fsdp_order]
        free = [i for i in free if not self._is_stuck(dims[i], entries[i])]
        fits = [i for i in free if shard[i] and shard[i] % max(self.mesh[DATA], 2) == 0]
        if fits:
            best = max(fits, key=lambda i: (shard[i] & -shard[i], shard[i]))
            entries[best] = (*entries[best], DATA)
        return partition_spec(entries)

    def _is_stuck(self, node: Node, axes: Axes) -> bool:
        """Return whether a dim that `axes` split, those of rows apart, can be split over no axis of rows besides.

        Of a batch dim of a product with a parameter XLA (jax 0.10) then makes a wrong gradient, if other axes split rows
        too: each device has that of another one's part.
        """
        return node in self._batched and not {*axes} <= {STAGE, DATA, FSDP}

    @cached_property
    def _batched(self) -> set[Node]:
        """Classes that are batch dims of products with a parameter, and not of such by groups of rows."""
        graph = self.classes.graph
        products = (dot for dot in graph.dots if weights_of(dot))
        return {graph.find(n) for dot in products for n in {*dot.batch} & {*dot.out.dims}}

    def _experts_dim(self, index: int) -> int | None:
        """Return the dim of a parameter that counts the experts whose kernels it has, where fsdp splits any."""
        if index in self._choosing or all(self.mesh[axis] == 1 for axis in fsdp_axes(self.mesh)):
            return None
        dims = enumerate(self.classes.parameter_dims[index])
        return next((i for i, node in dims if node in self._labelled), None)

    @cached_property
    def _labelled(self) -> set[Node]:
        """Classes of experts."""
        return {node for node, label in self.classes.labels.items() if label == "experts"}

    @cached_property
    def _choosing(self) -> set[int]:
        """Parameters that choose among experts."""
        return routers(self.classes, self._labelled)

    @cached_property
    def experts(self) -> set[Node]:
        """Classes that `expert` splits."""
        return {node for node, axes in self.axes.items() if EXPERT in axes}

    @cached_property
    def routers(self) -> set[int]:
        """Parameters that choose among experts that `expert` splits."""
        return routers(self.classes, self.experts)

    @cached_property
    def _fsdp_order(self) -> list[Node]:
        """Classes that fsdp may split, the one that most parameters have first; no loop's."""
        counts = parameters_per_class(self.classes)
        free = counts.keys() - self.classes.loops - self.classes.windows
        return sorted(free, key=lambda n: (-counts[n], self.classes.order[n]))


def partition_spec(entries: Sequence[Axes]) -> P:
    """Return the PartitionSpec of each dim's axes: None, an axis, or a tuple of axes a dim."""
    return P(*(axes if len(axes) > 1 else axes[0] if axes else None for axes in entries))


def axes_of_entry(entry: str | Axes | None) -> Axes:
    """Return the axes of one entry of a PartitionSpec; none of one that the compiler is free to choose."""
    if isinstance(entry, str):
        return (entry,)
    return tuple(entry) if isinstance(entry, tuple | list) else ()


def shard_shape(shape: Shape, spec: P, mesh: Mapping[str, int]) -> list[int]:
    """Return the shape of one device's part."""
    parts = [math.prod(mesh[axis] for axis in axes_of_entry(entry)) for entry in spec]
    return [size // part for size, part in zip(shape, parts, strict=True)]


def pad_to(x: jax.Array, shape: Shape) -> jax.Array:
    """Return `x` in a larger shape, zeros added at the end of each dim."""
    widths = [(0, size - own) for size, own in zip(shape, x.shape, strict=True)]
    return jnp.pad(x, widths) if x.shape != shape else x


def cut_to(x: jax.Array, shape: Shape) -> jax.Array:
    """Return the part of `x` at the start of each dim that has a shape: undo `pad_to`."""
    return jax.lax.slice(x, [0] * x.ndim, shape)
