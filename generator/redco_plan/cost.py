"""What splitting a set of classes over one mesh axis costs: products that stay whole, bytes to move, then bytes on each device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from redco_plan.classes import Classes
from redco_plan.flow import Flow
from redco_plan.graph import Dot, Node
from redco_plan.trace import Program

Items = tuple[tuple[frozenset[Node], int], ...]

# A parameter lies in memory three times: itself, and the two moments of Adam, which most train with.
COPIES = 3

# A ring's all-reduce is a reduce-scatter and an all-gather, so each byte travels twice (Patarasuk
# and Yuan 2009); parts that change places travel once. A dim that is repeated lies where its
# repetitions do. By the kind of a transfer; for the others, SUM_TRIPS.
TRIPS = {"part": 1, "join": 1, "fold": 1, "repeat": 0}
SUM_TRIPS = 2

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
class Sums:
    """What a choice costs, in whole numbers, so that it is changed without being summed anew.

    repeated: FLOPs that devices repeat, of all but one.  memory: bytes of the parameters on each device.  moved: bytes.
    """

    repeated: int
    memory: int
    moved: int


@dataclass(frozen=True)
class CostModel:
    """The figures of a program, ready to price any choice of split classes over `n` devices.

    moved: class -> bytes that the collectives send which splitting it causes.
    work: for each product, its classes and its FLOPs.
    memory: for each parameter, its classes and its bytes.
    parts: of each class that has fewer than `n`.
    rows: devices that share the rows of the batch.
    images: whether windows slide over two dims.
    """

    n: int
    moved: dict[Node, int]
    work: Items
    memory: Items
    parts: Mapping[Node, int] = field(default_factory=dict)
    rows: int = 1
    images: bool = False

    def cost(self, split: Set[Node]) -> Cost:
        """Return the cost of splitting the classes `split`."""
        return self.price(self.exchange(self.nothing, frozenset(), frozenset(), split))

    def exchange(self, sums: Sums, split: Set[Node], out: Set[Node], into: Set[Node]) -> Sums:
        """Return the sums of `split` with the classes `into` in the place of `out`, from its own: as long as these have items."""
        repeated, memory, moved = sums.repeated, sums.memory, sums.moved
        for nodes, flops in self._items(self.work, self._work_of, out, into):
            before = nodes & split
            after = before - out | nodes & into
            repeated += flops * (self.n // self._parts_of(after) - self.n // self._parts_of(before))
        for nodes, size in self._items(self.memory, self._memory_of, out, into):
            before = nodes & split
            after = before - out | nodes & into
            memory += size // self._parts_of(after) - size // self._parts_of(before)
        moved += sum(self.moved.get(node, 0) for node in into)
        moved -= sum(self.moved.get(node, 0) for node in out)
        return Sums(repeated, memory, moved)

    def price(self, sums: Sums) -> Cost:
        """Return the cost of a choice with these sums."""
        whole = sums.repeated / (self.n - 1)
        time = whole / self._all_work + self._moving * sums.moved / self._all_moved
        return Cost(time, sums.memory)

    def work_of(self, node: Node) -> int:
        """Return the FLOPs of the products that splitting one class divides."""
        return sum(self.work[i][1] for i in self._work_of[node])

    def saved(self, node: Node) -> int:
        """Return the bytes that splitting one class alone saves a device, less those it moves."""
        memory = sum(self.memory[i][1] for i in self._memory_of[node])
        moved = self.moved.get(node, 0) // self.rows
        return COPIES * (memory - memory // self._parts_of({node})) - moved

    @cached_property
    def nothing(self) -> Sums:
        """The sums where no class is split."""
        repeated = (self.n - 1) * sum(flops for _, flops in self.work)
        return Sums(repeated, sum(size for _, size in self.memory), 0)

    def _items(
        self, items: Items, by_node: Mapping[Node, list[int]], out: Set[Node], into: Set[Node]
    ) -> Iterator[tuple[frozenset[Node], int]]:
        """Yield each product or parameter of some classes, once."""
        for i in {i for node in (*out, *into) for i in by_node[node]}:
            yield items[i]

    def _parts_of(self, nodes: Set[Node]) -> int:
        """Return how many parts an array or a product is in if its classes `nodes` are split."""
        if not self.parts:
            return self.n if nodes else 1
        return max((self.parts.get(node, self.n) for node in nodes), default=1)

    @cached_property
    def _work_of(self) -> Mapping[Node, list[int]]:
        """The places in `work` of each class."""
        return _places(self.work)

    @cached_property
    def _memory_of(self) -> Mapping[Node, list[int]]:
        """The places in `memory` of each class."""
        return _places(self.memory)

    @cached_property
    def _all_work(self) -> int:
        """FLOPs of all products, or 1."""
        return sum(flops for _, flops in self.work) or 1

    @cached_property
    def _moving(self) -> float:
        """What all bytes that could be moved cost, of the work of all products."""
        memory = sum(size for _, size in self.memory)
        return IMAGE_PRICE if self.images and self._all_moved > IMAGES * memory else 1.0

    @cached_property
    def _all_moved(self) -> int:
        """Bytes that splitting every class of the parameters would move, or 1."""
        return sum(self.moved.get(node, 0) for node in {*self._memory_of}) or 1


def _places(items: Items) -> Mapping[Node, list[int]]:
    """Return the places of the items of each class; none of others."""
    places: dict[Node, list[int]] = defaultdict(list)
    for i, (nodes, _) in enumerate(items):
        for node in nodes:
            places[node].append(i)
    return places


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
