"""Which classes to split over one mesh axis: the cheapest set in which no array is split twice.

The price of a set: products that stay whole, bytes to move, then bytes on each device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from redco_plan.classes import Classes
from redco_plan.flow import Flow
from redco_plan.graph import Dot, Node
from redco_plan.trace import Program

Conflicts = dict[Node, frozenset[Node]]

# A parameter lies in memory three times: itself, and the two moments of Adam, which most train with.
COPIES = 3

# A ring's all-reduce is a reduce-scatter and an all-gather, so each byte travels twice (Patarasuk
# and Yuan 2009); parts that change places travel once. A dim that is repeated lies where its
# repetitions do. By the kind of a transfer; for the others, SUM_TRIPS.
TRIPS = {"part": 1, "join": 1, "fold": 1, "repeat": 0}
SUM_TRIPS = 2

# Classes that are tried both ways, in all, before the search goes on greedily. A decoder needs one,
# for its residual stream. The limit bounds the time: tangles of 300 classes end within 3 seconds
# (tests/sharding/test_search.py), and the layouts of the zoo there are the same with 4.
BRANCHES = 64

# A class that divides no work is split only if that saves more than this share of the model's memory,
# so that a small table has no collective of its own. Tried: the zoo's layouts are the same with 0;
# with 5 %, a ViT's differ from an expert's (tests/sharding/test_layouts.py).
TRIFLE = 5e-3


# Where splitting all classes would move many times the bytes of the parameters, and windows slide over
# images, a byte that is moved counts for more: of a long text it must not, since all of its products
# have its positions. Measured (tests/tools/classes, rows of 8): 6 times in a decoder, 12 in a
# ResNet, 40 to 53 in U-Nets, 289 in the autoencoder of Stable Diffusion, whose upsampling an expert
# leaves whole. From 1.45 on, a U-Net and the autoencoder send a tenth less; with 2 they hold more.
IMAGES, IMAGE_PRICE = 10, 1.5


@dataclass(frozen=True, order=True)
class Cost:
    """The cost of a choice of split classes, compared in this order.

    time: the share of the products' work that every device repeats, and the share of bytes moved,
        of those that splitting every class would move. Shares, so that a model of any size has the
        layout of its big sister.
    bytes: of the parameters on each device.
    """

    time: float
    bytes: int


@dataclass(frozen=True)
class Transfer:
    """A collective that splitting `node` causes.

    bytes: of one.
    times: how many a step makes.
    kind: "forward" and "backward" for sums of products, else the kind of a graph.Use.
    """

    node: Node
    bytes: int
    times: int
    kind: str


def _transfers(classes: Classes) -> Iterator[Transfer]:
    """Yield each collective that splitting a class causes, in one forward and backward pass.

    A product sums partial results over its contracted dims, once for all products that are added
    up; going backward, the gradient of an operand is summed over the other operand's free dims, once
    for all products of that operand.
    Heads of keys and values in fewer parts than those that read them are summed with these.
    """
    find, repeated = classes.graph.find, classes.graph.used("repeat")
    seen: set[tuple[int, Node]] = set()
    for nodes, dot in _sums(classes):
        for node in nodes:
            yield Transfer(node, dot.out.bytes // len(nodes), dot.times, "forward")
    for dot in classes.graph.dots:
        for operand, other in ((dot.lhs, dot.rhs), (dot.rhs, dot.lhs)):
            free = {find(n) for n in other.dims} - {find(n) for n in (*dot.contracted, *dot.batch)}
            for node in free - {find(n) for n in operand.dims} - repeated:
                if (operand.key, node) not in seen:
                    seen.add((operand.key, node))
                    yield Transfer(node, operand.bytes, dot.times, "backward")
    for use in classes.graph.uses:
        for node in {find(n) for n in use.nodes}:
            yield Transfer(node, use.value.bytes, use.times, use.kind)


def _sums(classes: Classes) -> Iterator[tuple[frozenset[Node], Dot]]:
    """Yield the classes that the products of a sum contract, and one of these products.

    Each of the classes has its share of the collective, as all of them are split or none.
    """
    dots = {dot.out.key: dot for dot in classes.graph.dots}
    for group in Flow.of(classes.graph).groups(dots.keys()):
        find = classes.graph.find
        nodes = frozenset(find(n) for key in group for n in dots[key].contracted)
        yield nodes, dots[min(group)]


@dataclass(frozen=True)
class CostModel:
    """The figures of a program, ready to price any choice of split classes over `n` devices.

    moved: class -> bytes that the collectives send which splitting it causes.
    work: for each product, its classes and its FLOPs.
    memory: for each parameter, its classes and its bytes.
    parts: of each class that has fewer than `n`.
    rows: devices that share the rows of the batch.
    images: whether windows slide over two dims.
    work_by_node, memory_by_node: the sums over the products and the parameters of each class.
    """

    n: int
    moved: dict[Node, int]
    work: tuple[tuple[frozenset[Node], int], ...]
    memory: tuple[tuple[frozenset[Node], int], ...]
    parts: Mapping[Node, int] = field(default_factory=dict)
    rows: int = 1
    images: bool = False
    work_by_node: dict[Node, int] = field(default_factory=lambda: defaultdict(int))
    memory_by_node: dict[Node, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        """Fill in the sums by node."""
        for sums, items in ((self.work_by_node, self.work), (self.memory_by_node, self.memory)):
            for nodes, amount in items:
                for node in nodes:
                    sums[node] += amount

    def cost(self, split: Set[Node]) -> Cost:
        """Return the cost of splitting the classes `split`."""
        whole = sum(
            flops * self._repeated(self._parts_of(nodes & split)) for nodes, flops in self.work
        )
        memory = sum(size // self._parts_of(nodes & split) for nodes, size in self.memory)
        moved = sum(self.moved.get(node, 0) for node in split)
        return Cost(whole / self._all_work + self._price * moved / self._all_moved, memory)

    def work_of(self, node: Node) -> int:
        """Return the FLOPs of the products that splitting one class divides."""
        return self.work_by_node[node]

    def saved(self, node: Node) -> int:
        """Return the bytes that splitting one class alone saves a device, less those it moves."""
        memory, moved = self.memory_by_node[node], self.moved.get(node, 0) // self.rows
        return COPIES * (memory - memory // self._parts_of({node})) - moved

    def _parts_of(self, nodes: Set[Node]) -> int:
        """Return how many parts an array or a product is in if its classes `nodes` are split."""
        if not self.parts:
            return self.n if nodes else 1
        return max((self.parts.get(node, self.n) for node in nodes), default=1)

    def _repeated(self, parts: int) -> float:
        """Return the share of a product in `parts` that every device repeats of the others' work."""
        return (self.n / parts - 1) / (self.n - 1)

    @cached_property
    def _all_work(self) -> int:
        """FLOPs of all products, or 1."""
        return sum(flops for _, flops in self.work) or 1

    @cached_property
    def _price(self) -> float:
        """What all bytes that could be moved cost, of the work of all products."""
        memory = sum(size for _, size in self.memory)
        return IMAGE_PRICE if self.images and self._all_moved > IMAGES * memory else 1.0

    @cached_property
    def _all_moved(self) -> int:
        """Bytes that splitting every class of the parameters would move, or 1."""
        return sum(self.moved.get(node, 0) for node in self.memory_by_node) or 1


def cost_model(
    classes: Classes, program: Program, n: int, parts: Mapping[Node, int], rows: int
) -> CostModel:
    """Return the figures of a program for `n` devices, two or more; the rest as in CostModel."""
    find = classes.graph.find
    moved: dict[Node, int] = defaultdict(int)
    for transfer in _transfers(classes):
        trips = TRIPS.get(transfer.kind, SUM_TRIPS)
        moved[transfer.node] += trips * transfer.bytes * transfer.times
    work = tuple(
        (frozenset(map(find, dot.dividing)), dot.flops * dot.times) for dot in classes.graph.dots
    )
    memory = tuple(
        (frozenset(dims), parameter.bytes)
        for dims, parameter in zip(classes.parameter_dims, program.parameters, strict=True)
    )
    windows = (sum(node in classes.windows for node in dims) for dims in classes.parameter_dims)
    return CostModel(n, dict(moved), work, memory, parts, rows, images=max(windows, default=0) > 1)


def find_conflicts(classes: Classes, nodes: Set[Node]) -> Conflicts:
    """Return for each class those that share an array with it: at most one of them may be split.

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


def choose_classes(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """Return the set of classes to split: no two of them in conflict, the cheapest that it finds."""
    return _search(model, conflicts, iter(range(BRANCHES)))


def _search(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """Return the best sets of each group of classes that are connected by conflicts, together."""
    best: frozenset[Node] = frozenset()
    for group in _components(conflicts):
        best |= _branch(model, group, branches)
    return best


def _branch(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """Try the class with the most conflicts (the residual stream, as a rule) both ways.

    Classes without conflicts are split if that divides work, or moves less than it saves.
    """
    hub = max(conflicts, key=lambda node: len(conflicts[node]))
    if not conflicts[hub]:
        return frozenset(node for node in conflicts if _pays(model, node))
    if next(branches, None) is None:
        return _greedy(model, conflicts)
    with_hub = _search(model, _without(conflicts, {hub, *conflicts[hub]}), branches) | {hub}
    without_hub = _search(model, _without(conflicts, {hub}), branches)
    return min(without_hub, with_hub, key=model.cost)


def _greedy(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """Add a class at a time, the most work first, where it pays for those that it excludes."""
    chosen: frozenset[Node] = frozenset()
    cost = model.cost(chosen)
    for node in sorted(conflicts, key=model.work_of, reverse=True):
        candidate = (chosen - conflicts[node]) | {node}
        if (price := model.cost(candidate)) < cost:
            chosen, cost = candidate, price
    return chosen


def _pays(model: CostModel, node: Node) -> bool:
    """Return whether splitting a class pays by itself."""
    alone, nothing = model.cost(frozenset({node})), model.cost(frozenset())
    return alone.time < nothing.time or model.saved(node) > TRIFLE * nothing.bytes


def _without(conflicts: Conflicts, nodes: Set[Node]) -> Conflicts:
    """Return the conflicts of all other classes than `nodes`, among themselves."""
    return {node: others - nodes for node, others in conflicts.items() if node not in nodes}


def _components(conflicts: Conflicts) -> Iterator[Conflicts]:
    """Yield the groups of classes that no conflict connects."""
    left = dict(conflicts)
    while left:
        group: set[Node] = set()
        edge = [next(iter(left))]
        while edge:
            node = edge.pop()
            if node not in group:
                group.add(node)
                edge += conflicts[node]
        yield {node: left.pop(node) for node in list(left) if node in group}
