"""Into how many parts each dimension class can be divided, and what is done where sizes are odd."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from redco_new.sharding.classes import Classes
from redco_new.sharding.graph import Node
from redco_new.sharding.classes import HUB
from redco_new.sharding.classes import neighbours
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from redco_new.sharding.classes import count

# An odd dim is padded where that adds at most this share of it: 50257 to 50260, not 12 to 16.
PADDING = 0.05


@dataclass(frozen=True)
class Ways:
    """How a class can be divided over `n` devices.

    parts: 1 if it cannot; fewer than `n` if each part lies on several devices.
    stored: the size that its dim is padded to in memory, or 0.  obstacle: why parts is 1, or "".
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
        """Parts of a class whose dims have `sizes`."""
        common = math.gcd(self.n, *sizes)
        return common if self.adapt or common == self.n else 1

    def ways(self, *sizes: int, padded: bool) -> Ways:
        """Of a class that nothing but its sizes keeps from being divided, and that may be padded."""
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
    """How each class of the parameters can be divided. The residual stream is never padded."""
    twice = {node for dims in classes.parameter_dims for node, k in Counter(dims).items() if k > 1}
    near = neighbours(classes)
    found = {}
    for node, label in classes.labels.items():
        ways = divider.ways(*classes.sizes[node], padded=len(near[node]) < HUB)
        if node in classes.scanned:
            obstacle = "a loop runs over it"
        elif node in classes.windows:
            obstacle = "a window slides over it"
        elif node in classes.inputs:
            obstacle = "it is a dim of the batch"
        elif ways.obstacle:
            obstacle = ways.obstacle
        elif node in twice:
            obstacle = "a parameter has it twice"
        elif label == "positions":
            obstacle = "a short table costs less to keep than to fetch from"
        else:
            obstacle = ""
        found[node] = Ways(1, obstacle=obstacle) if obstacle else ways
    return found


MODEL = "model"


def model_axes(
    n: int, parts: Mapping[Node, int]
) -> tuple[dict[str, int], dict[Node, tuple[str, ...]]]:
    """Axis -> size, and the axes that divide each class; their sizes multiply to its parts.

    n: devices that split a layer.  parts: of each class that is split; each divides `n`.
    If all classes have `n` parts there is one axis, `model`. If 2 kv heads are split over 8
    devices, and 12 heads, and an mlp, there are `model_1` (all three), `model_2` (heads and mlp)
    and `model_3` (mlp). The axes with the most classes come first, so that a run of heads lies
    where its kv head lies.
    """
    users: dict[frozenset[Node], int] = defaultdict(lambda: 1)
    for prime, power in factors(n):
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


def inner_axes(mesh: Iterable[str]) -> tuple[str, ...]:
    """The axes of a mesh that split a layer: `model`, or those that it is taken apart into."""
    return tuple(axis for axis in mesh if axis.split("_")[0] == MODEL)


def factors(n: int) -> Iterator[tuple[int, int]]:
    """(prime, power) of each prime factor of `n`, its power counted up: 12 gives 2^1, 2^2, 3^1."""
    prime = 2
    while n > 1:
        power = 0
        while n % prime == 0:
            n, power = n // prime, power + 1
            yield prime, power
        prime += 1


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
