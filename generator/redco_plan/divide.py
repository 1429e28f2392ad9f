"""Classes -> into how many parts each can be divided, over which mesh axes; then each parameter.

The search (search.py) lies in between: it chooses the classes to split of those that can be.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from redco_plan.classes import (
    HUB,
    Classes,
    kernel_classes,
    neighbouring_classes,
    parameters_per_class,
    routers,
)
from redco_plan.graph import Node

# The mesh axes. `model` splits layers, the others the rows of the batch; `fsdp` also splits a dim
# of each parameter, `expert` the experts.
DATA, FSDP, EXPERT, MODEL = "data", "fsdp", "expert", "model"

# A dim that does not divide is padded where that adds at most this share of it, to its memory and
# its work. Not measured: the least alternative, half as many parts, doubles both on each device. It
# parts a vocabulary (50257 on 4 devices grows by 0.006 %) from heads (12 on 16, by a third).
PADDING = 0.05

Axes = tuple[str, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Ways:
    """How a class can be divided over `n` devices.

    parts: 1 if it cannot; fewer than `n` if each part lies on several devices.
    stored: the size that its dim is padded to in memory, or 0.
    obstacle: why parts is 1, or "".
    """

    parts: int
    stored: int = 0
    obstacle: str = ""


@dataclass(frozen=True)
class Divider:
    """The rule of division over `n` devices.

    adapt: what does not divide by `n` is divided in fewer parts, or padded. Otherwise it is whole.
    """

    n: int
    adapt: bool

    def parts(self, *sizes: int) -> int:
        """Return the number of parts of a class whose dims have `sizes`."""
        common = math.gcd(self.n, *sizes)
        return common if self.adapt or common == self.n else 1

    def ways(self, *sizes: int, padded: bool) -> Ways:
        """Return how a class of `sizes` can be divided if nothing but these is in the way.

        padded: whether the class may be padded.
        """
        parts = self.parts(*sizes)
        if self.adapt and padded and parts < self.n and len(sizes) == 1:
            stored = -(-sizes[0] // self.n) * self.n
            if stored - sizes[0] <= PADDING * sizes[0]:
                return Ways(self.n, stored)
        if parts == 1 < self.n:
            odd = min(size for size in sizes if size % self.n)
            return Ways(1, obstacle=f"{odd} does not divide by {self.n}")
        return Ways(parts)


def find_ways(classes: Classes, divider: Divider) -> dict[Node, Ways]:
    """Return how each class of the parameters can be divided."""
    twice = {node for dims in classes.parameter_dims for node, k in Counter(dims).items() if k > 1}
    near, scores = neighbouring_classes(classes), _summed_by_scores(classes)
    kernels = kernel_classes(classes)
    ways = {}
    for node, label in classes.labels.items():
        # Never the residual stream: nearly every array has it, and would be padded and cut back.
        by_size = divider.ways(*classes.sizes[node], padded=len(near[node]) < HUB)
        if node in classes.loops:
            obstacle = "a loop runs over it"
        elif node in classes.windows:
            obstacle = "a window slides over it"
        elif node in classes.inputs:
            obstacle = "it is a dim of the batch"
        elif by_size.obstacle:
            obstacle = by_size.obstacle
        elif node in twice:
            obstacle = "a parameter has it twice"
        elif node in scores:
            obstacle = "scores of positions sum over it: each device would send all of them"
        elif label == "positions":
            obstacle = "a short table costs less to keep than to fetch from"
        elif label == "head_dim" and node not in kernels:
            obstacle = "vectors of so few elements cost less to keep than to fetch"
        else:
            obstacle = ""
        ways[node] = Ways(1, obstacle=obstacle) if obstacle else by_size
    return ways


def _summed_by_scores(classes: Classes) -> set[Node]:
    """Return the classes that scores, which have positions twice, sum over: queries', keys' and values'.

    Scores are a product of queries and keys, which sums over their channels; their gradient sums
    over those of the values. Where heads are split instead, the channels of each are whole.
    """
    graph, positions = classes.graph, classes.inputs
    summed: set[Node] = set()
    for dot in graph.dots:
        contracted = {*map(graph.find, dot.contracted)}
        paired = Counter(map(graph.find, (*dot.contracted, *dot.batch)))
        lhs, rhs = (  # a Counter, since scores may have the same class twice
            set(Counter(graph.find(n) for n in value.dims if graph.sizes[n] > 1) - paired)
            for value in (dot.lhs, dot.rhs)
        )
        if dot.batch and all(v.data and v.parameter is None for v in (dot.lhs, dot.rhs)):
            summed |= contracted if lhs & positions and rhs & positions else set()
            for scores, others in ((lhs, rhs), (rhs, lhs)):
                summed |= others if scores & positions and contracted & positions else set()
    return summed


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

        Of kernels of experts it divides these, if it can: their rows are gathered as they lie. Each row is
        routed where it lies, so over `expert`, which splits rows too, a router is whole.
        """
        dims, shape = self.classes.parameter_dims[index], self.shapes[index]
        whole = self.experts if index in self.routers else ()
        entries = [() if node in whole else self.axes.get(node, ()) for node in dims]
        if (i := self._experts_dim(index)) is not None:
            if shape[i] % math.prod(self.mesh[axis] for axis in (*entries[i], FSDP)) == 0:
                entries[i] = (*entries[i], FSDP)
                return partition_spec(entries)
        if sum(node in self._fsdp_order for node in dims) > 1:
            for node in self._fsdp_order:
                if node in dims and not entries[i := dims.index(node)]:
                    if shape[i] > 1 and shape[i] % self.mesh[FSDP] == 0:
                        entries[i] = (FSDP,)
                        break
        return partition_spec(entries)

    def moments(self, index: int) -> P:
        """Return the layout of what an optimizer keeps of parameter `index`: over `data` too.

        `data` comes last on the dim whose part most powers of two divide, the longest of those: how
        many devices it will have may be open, and a padded vocabulary's part can be odd. ZeRO's
        first stage (Rajbhandari et al. 2020, section 5.1).
        """
        entries = [axes_of_entry(entry) for entry in self.partition(index)]
        shard = shard_shape(self.stored(index), partition_spec(entries), self.mesh)
        dims = self.classes.parameter_dims[index]
        free = [i for i, node in enumerate(dims) if node in self._fsdp_order]
        fits = [i for i in free if shard[i] and shard[i] % max(self.mesh[DATA], 2) == 0]
        if fits:
            best = max(fits, key=lambda i: (shard[i] & -shard[i], shard[i]))
            entries[best] = (*entries[best], DATA)
        return partition_spec(entries)

    def _experts_dim(self, index: int) -> int | None:
        """Return the dim of a parameter that counts the experts whose kernels it has, where fsdp splits any."""
        if self.mesh[FSDP] == 1 or index in self._choosing:
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
    """Return the axes of one entry of a PartitionSpec."""
    return (entry,) if isinstance(entry, str) else entry or ()


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
