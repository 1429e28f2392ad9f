"""What a choice of split classes costs: products that stay whole, bytes to move, bytes to hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from redco_new.sharding.classes import Classes
from redco_new.sharding.graph import Node
from redco_new.sharding.trace import Traced

# A parameter is held three times: itself and two moments of Adam.
COPIES = 3


# An all-reduce sends each byte twice, to be summed and back; parts that change places go once.
# A dim that is repeated lies where its repetitions do.
TRIPS = {"part": 1, "join": 1, "fold": 1, "repeat": 0}


SUMMED = 2


@dataclass(frozen=True, order=True)
class Cost:
    """Compared in this order.

    time: the share of the products' work that every device repeats, and the share of bytes moved,
    of those that splitting every class would move: shares, so that a model of any size has the
    layout of its big sister.
    bytes: held per device.
    """

    time: float
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
    Heads of keys and values in fewer parts than those that read them are summed with these.
    """
    find, repeated = classes.graph.find, classes.graph.used("repeat")
    done: set[tuple[int, Node]] = set()
    for dot in classes.graph.dots:
        for node in {find(n) for n in dot.contracted}:
            yield Collective(node, dot.out.bytes, dot.times, "forward", dot.source)
        for operand, other in ((dot.lhs, dot.rhs), (dot.rhs, dot.lhs)):
            free = {find(n) for n in other.dims} - {find(n) for n in (*dot.contracted, *dot.batch)}
            for node in free - {find(n) for n in operand.dims} - repeated:
                if (operand.key, node) not in done:
                    done.add((operand.key, node))
                    yield Collective(node, operand.bytes, dot.times, "backward", dot.source)
    for use in classes.graph.uses:
        for node in {find(n) for n in use.nodes}:
            yield Collective(node, use.value.bytes, use.times, use.kind, use.source)


@dataclass(frozen=True)
class CostModel:
    """The figures of a traced model, ready to price any choice of split classes over `n` devices.

    moved: bytes that the collectives send which splitting a class causes.
    work: for each matrix product, its classes and its FLOPs.
    held: for each parameter, its classes and its bytes.
    parts: of each class that has fewer than `n`.  rows: devices that share the rows of the batch.
    """

    n: int
    moved: dict[Node, int]
    work: tuple[tuple[frozenset[Node], int], ...]
    held: tuple[tuple[frozenset[Node], int], ...]
    parts: Mapping[Node, int] = field(default_factory=dict)
    rows: int = 1
    work_by_node: dict[Node, int] = field(default_factory=lambda: defaultdict(int))
    held_by_node: dict[Node, int] = field(default_factory=lambda: defaultdict(int))

    @cached_property
    def all_work(self) -> int:
        """FLOPs of all products, or 1."""
        return sum(flops for _, flops in self.work) or 1

    @cached_property
    def all_moved(self) -> int:
        """Bytes that splitting every class of the parameters would move, or 1."""
        return sum(self.moved.get(node, 0) for node in self.held_by_node) or 1

    def __post_init__(self) -> None:
        for sums, items in ((self.work_by_node, self.work), (self.held_by_node, self.held)):
            for nodes, amount in items:
                for node in nodes:
                    sums[node] += amount

    def work_of(self, node: Node) -> int:
        """FLOPs of the products that splitting one class divides."""
        return self.work_by_node[node]

    def saved(self, node: Node) -> int:
        """Bytes that splitting one class alone saves per device, less those that it moves."""
        held, moved = self.held_by_node[node], self.moved.get(node, 0) // self.rows
        return COPIES * (held - held // self.parts_of({node})) - moved

    def parts_of(self, nodes: Set[Node]) -> int:
        """Parts that an array or a product is in, if the classes `nodes` of it are split."""
        if not self.parts:
            return self.n if nodes else 1
        return max((self.parts.get(node, self.n) for node in nodes), default=1)

    def repeated(self, parts: int) -> float:
        """The share of a product in `parts` that each device repeats: of all but its own part."""
        return (self.n / parts - 1) / (self.n - 1)

    def cost(self, split: Set[Node]) -> Cost:
        """The cost of splitting the classes `split`."""
        whole = sum(
            flops * self.repeated(self.parts_of(nodes & split)) for nodes, flops in self.work
        )
        held = sum(size // self.parts_of(nodes & split) for nodes, size in self.held)
        moved = sum(self.moved.get(node, 0) for node in split)
        return Cost(whole / self.all_work + moved / self.all_moved, held)


def cost_model(
    classes: Classes, traced: Traced, n: int, parts: Mapping[Node, int], rows: int
) -> CostModel:
    """Price a traced model for `n` devices, two or more."""
    find = classes.graph.find
    moved: dict[Node, int] = defaultdict(int)
    for c in collectives(classes):
        moved[c.node] += TRIPS.get(c.phase, SUMMED) * c.bytes * c.times
    work = tuple(
        (frozenset(map(find, dot.divided)), dot.flops * dot.times) for dot in classes.graph.dots
    )
    held = tuple(
        (frozenset(dims), parameter.bytes)
        for dims, parameter in zip(classes.parameter_dims, traced.parameters, strict=True)
    )
    return CostModel(n, dict(moved), work, held, parts, rows)


Conflicts = dict[Node, frozenset[Node]]


# Classes that are tried both ways, in all. A decoder needs one, for its residual stream.
BRANCHES = 64


# Memory that is not worth a collective of its own, as a share of the model's.
TRIFLE = 5e-3


def find_conflicts(classes: Classes, nodes: Set[Node]) -> Conflicts:
    """For each class, those that share an array with it: at most one of them may be split.

    In the order in which the program uses the classes, so that no name decides between equals.
    """
    find = classes.graph.find
    together: dict[Node, set[Node]] = {
        node: set() for node in sorted(nodes, key=classes.order.__getitem__)
    }
    for dims in {frozenset(map(find, value.dims)) & nodes for value in classes.graph.values}:
        for node in dims:
            together[node] |= dims - {node}
    return {node: frozenset(others) for node, others in together.items()}


def choose(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """The set of classes to split."""
    return search(model, conflicts, iter(range(BRANCHES)))


def search(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """The best set of each group of classes that are connected by conflicts, together."""
    best: frozenset[Node] = frozenset()
    for group in components(conflicts):
        best |= branch(model, group, branches)
    return best


def branch(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """The class with the most conflicts (the residual stream, as a rule) is tried both ways.

    Classes without conflicts are split if that divides work, or moves less than it saves.
    """
    hub = max(conflicts, key=lambda node: len(conflicts[node]))
    if not conflicts[hub]:
        return frozenset(node for node in conflicts if worth(model, node))
    if next(branches, None) is None:
        return greedy(model, conflicts)
    with_hub = search(model, without(conflicts, {hub, *conflicts[hub]}), branches) | {hub}
    without_hub = search(model, without(conflicts, {hub}), branches)
    return min(without_hub, with_hub, key=model.cost)


def greedy(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """One class at a time, the most work first, where it pays for those that it excludes."""
    chosen: frozenset[Node] = frozenset()
    cost = model.cost(chosen)
    for node in sorted(conflicts, key=model.work_of, reverse=True):
        tried = (chosen - conflicts[node]) | {node}
        if (price := model.cost(tried)) < cost:
            chosen, cost = tried, price
    return chosen


def worth(model: CostModel, node: Node) -> bool:
    """Whether splitting a class pays by itself."""
    alone, nothing = model.cost(frozenset({node})), model.cost(frozenset())
    return alone.time < nothing.time or model.saved(node) > TRIFLE * nothing.bytes


def without(conflicts: Conflicts, gone: Set[Node]) -> Conflicts:
    return {node: others - gone for node, others in conflicts.items() if node not in gone}


def components(conflicts: Conflicts) -> Iterator[Conflicts]:
    """Groups of classes that no conflict connects."""
    left = dict(conflicts)
    while left:
        found, edge = set(), [next(iter(left))]
        while edge:
            node = edge.pop()
            if node not in found:
                found.add(node)
                edge += conflicts[node]
        yield {node: left.pop(node) for node in list(left) if node in found}
