"""Where the positions of a batch mix: what meets there, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from redco_plan.graph import Dot, Graph, Node, Value


@dataclass(frozen=True)
class Positions:
    """The positions of one program.

    nodes: the classes of dims that are positions.
    """

    graph: Graph
    nodes: frozenset[Node]

    def count(self, nodes: Sequence[Node]) -> int:
        """Return how many of some dims are positions."""
        return sum(self.graph.find(node) in self.nodes for node in nodes)

    @cached_property
    def meetings(self) -> list[tuple[Value, Dot]]:
        """What meets where positions mix, and the product: queries and keys, values, and what attention gives."""
        pairs = []
        for dot in self.graph.dots:
            if not dot.batch or not (dot.lhs.data and dot.rhs.data):
                continue
            scores = self.count(dot.out.dims) > 1
            if scores or self.count(dot.contracted):
                once = [v for v in (dot.lhs, dot.rhs) if self.count(v.dims) == 1]
                pairs += [(value, dot) for value in (once if scores else [*once, dot.out])]
        return pairs

    @cached_property
    def sums(self) -> frozenset[int]:
        """Keys of the values that are sums over positions, each of its own weights: what attention gives."""
        return frozenset(dot.out.key for value, dot in self.meetings if value is dot.out)
