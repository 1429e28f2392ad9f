"""Classes -> into how many parts each can be divided.

The search (search.py) chooses the classes to split of those that can be.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from redco_plan.classes import HUB, Classes, kernel_classes, neighbouring_classes
from redco_plan.graph import Node

# A dim that does not divide is padded where that adds at most this share of it, to its memory and
# its work. Not measured: the least alternative, half as many parts, doubles both on each device. It
# parts a vocabulary (50257 on 4 devices grows by 0.006 %) from heads (12 on 16, by a third).
PADDING = 0.05


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
        elif node in classes.whole:
            obstacle = classes.whole[node]
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
