"""Ways to divide -> mesh axes: the axis `model` as it is, or taken apart where classes need less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from redco_new.sharding.dims import Node

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
