"""What a choice of split classes costs: products that stay whole, bytes to move, bytes to hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass

from redco_new.sharding.classes import Classes
from redco_new.sharding.dims import Node
from redco_new.sharding.trace import Traced

# A parameter is held three times: itself and two moments of Adam.
COPIES = 3
# An all-reduce sends each byte twice: to be summed, and back.
TRIPS = 2


@dataclass(frozen=True, order=True)
class Cost:
    """Compared in this order.

    whole: percent of the matrix products' work that every device repeats.
    bytes: sent by the collectives of one step (forward and backward), plus held per device.
    """

    whole: int
    bytes: int


@dataclass(frozen=True)
class Collective:
    """A collective that splitting `node` causes: `bytes` of it, `times` times a step."""

    node: Node
    bytes: int
    times: int
    phase: str
    source: str


def collectives(classes: Classes) -> Iterator[Collective]:
    """Each collective that splitting a class causes, in one forward and backward pass.

    A product sums partial results over its contracted dims; going backward, the gradient of an
    operand is summed over the other operand's free dims, once for all products of that operand.
    """
    find = classes.graph.find
    done: set[tuple[int, Node]] = set()
    for dot in classes.graph.dots:
        for node in {find(n) for n in dot.contracted}:
            yield Collective(node, dot.out.bytes, dot.times, "forward", dot.source)
        for operand, other in ((dot.lhs, dot.rhs), (dot.rhs, dot.lhs)):
            free = {find(n) for n in other.dims} - {find(n) for n in (*dot.contracted, *dot.batch)}
            for node in free - {find(n) for n in operand.dims}:
                if (operand.key, node) not in done:
                    done.add((operand.key, node))
                    yield Collective(node, operand.bytes, dot.times, "backward", dot.source)
    for use in classes.graph.uses:
        for node in {find(n) for n in use.nodes}:
            yield Collective(node, use.value.bytes, use.times, use.kind, use.source)


@dataclass(frozen=True)
class CostModel:
    """The figures of a traced model, ready to price any choice of split classes over `n` devices.

    moved: bytes of collectives that splitting a class causes.
    work: for each matrix product, its classes and its FLOPs.
    held: for each parameter, its classes and its bytes.
    """

    n: int
    moved: dict[Node, int]
    work: tuple[tuple[frozenset[Node], int], ...]
    held: tuple[tuple[frozenset[Node], int], ...]

    def work_of(self, node: Node) -> int:
        """FLOPs of the products that splitting one class divides."""
        return sum(flops for nodes, flops in self.work if node in nodes)

    def cost(self, split: Set[Node]) -> Cost:
        """The cost of splitting the classes `split`."""
        total = sum(flops for _, flops in self.work) or 1
        whole = sum(flops for nodes, flops in self.work if not nodes & split)
        held = sum(size // self.n if nodes & split else size for nodes, size in self.held)
        moved = sum(self.moved.get(node, 0) for node in split)
        return Cost(math.ceil(100 * whole / total), TRIPS * moved + COPIES * held)


def cost_model(classes: Classes, traced: Traced, n: int) -> CostModel:
    """Price a traced model for `n` devices."""
    find = classes.graph.find
    moved: dict[Node, int] = defaultdict(int)
    for c in collectives(classes):
        moved[c.node] += c.bytes * c.times
    work = tuple(
        (frozenset(map(find, (*dot.out.dims, *dot.contracted))), dot.flops * dot.times)
        for dot in classes.graph.dots
    )
    held = tuple(
        (frozenset(dims), parameter.bytes)
        for dims, parameter in zip(classes.parameter_dims, traced.parameters, strict=True)
    )
    return CostModel(n, dict(moved), work, held)
