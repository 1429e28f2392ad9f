"""Into how many parts each dimension class can be divided, and what is done where sizes are odd."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Node
from redco_new.sharding.roles import HUB, neighbours

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
