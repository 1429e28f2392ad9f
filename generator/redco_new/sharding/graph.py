"""Jaxpr -> dimension classes: which dims of which values are the same dim.

Each dim of each value has a node. Every equation says which nodes are the same (rules.py), and
what it does with the others: contract, reduce, index or cut them. The classes of equal nodes are
the model's logical axes; the uses of a class are what it costs to split it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

Node = int


@dataclass(frozen=True)
class Value:
    """An array in the traced program.

    dims: one node a dim.  bytes: of the whole array.
    key: the same for all values that hold the same data, whatever their dtype or layout.
    data: whether it depends on the batch.
    parameter: index of the parameter that it is a view, a part or a rescaling of, or None.
    """

    dims: tuple[Node, ...]
    bytes: int
    key: int
    data: bool = False
    parameter: int | None = None


@dataclass(frozen=True)
class Dot:
    """A contraction, `times` times a step; `flops` of one of them. Nodes, as found in operands."""

    lhs: Value
    rhs: Value
    out: Value
    contracted: tuple[Node, ...]
    batch: tuple[Node, ...]
    flops: int
    times: int
    source: str

    @property
    def divided(self) -> set[Node]:
        """Nodes that divide the work once they are split: all but those that choose a kernel."""
        choosing = set(self.batch) - set(self.out.dims)
        return {*self.lhs.dims, *self.rhs.dims, *self.contracted} - choosing


@dataclass(frozen=True)
class Use:
    """An operation that is not local once one of `nodes` is split: it moves `value`.

    kind: "reduce" (the operation sums over the node), "index" (it looks rows up along it),
    "part" (it takes the node apart into smaller dims), "join" (the parts come together because
    the whole array is needed), "repeat" (each element becomes several), "fold" (it is a minor
    factor of a merge or a split), or "cut" (the operation slices, sorts, joins or shifts along it).
    """

    kind: str
    nodes: tuple[Node, ...]
    value: Value
    times: int
    source: str


@dataclass(frozen=True)
class Tie:
    """Two nodes that are the same unless a reason against it is found later (ties.py).

    apart: what to record against `a` if they are not; its kind says which reason would do.
    array: all nodes of the array that holds `a`, for a tie of kind "join".
    """

    a: Node
    b: Node
    apart: Use
    array: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Body:
    """One pass through a program: a function that is called twice has two.

    values: of its variables.  inner: for each equation, the passes through the programs in it.
    """

    jaxpr: Any
    values: dict[Any, Value]
    inner: list[tuple[Body, ...]]

    def equations(self) -> Iterator[tuple[Body, Any, tuple[Body, ...]]]:
        """Each equation, after those inside it, with the body that it is in and the bodies in it."""
        for eqn, inner in zip(self.jaxpr.eqns, self.inner, strict=True):
            for body in inner:
                yield from body.equations()
            yield self, eqn, inner


@dataclass
class Graph:
    """Union-find over the dims of a program, and what the program does with them.

    scanned, windows: dims that a loop runs over, that the window of a convolution slides over.
    copies: dims along which all elements are the same.  copied: the representatives of classes of
    nothing but such dims.  origins: (new, old) where a dim is made of an old one's elements, in
    another number.  pieces: (dim, size) where a part of that size is taken of it.  grouped:
    (channels, line) of a grouped convolution.
    unknown: primitive without a rule -> its line.
    """

    sizes: list[int] = field(default_factory=list)
    parents: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    scanned: list[Node] = field(default_factory=list)
    windows: list[Node] = field(default_factory=list)
    copies: set[Node] = field(default_factory=set)
    copied: set[Node] = field(default_factory=set)
    origins: list[tuple[Node, Node]] = field(default_factory=list)
    pieces: list[tuple[Node, int]] = field(default_factory=list)
    grouped: list[tuple[Node, str]] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    times: int = 1
    source: str = ""
    data: bool = False

    def node(self, size: int) -> Node:
        """A new node for a dim of `size` elements."""
        self.sizes.append(int(size))
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def find(self, node: Node) -> Node:
        """The representative of the class of `node`."""
        root = node
        while self.parents[root] != root:
            root = self.parents[root]
        while self.parents[node] != root:
            self.parents[node], node = root, self.parents[node]
        return root

    def unite(self, a: Node, b: Node) -> None:
        """Say that two dims are the same. A dim of size 1 is no dim: it is never united."""
        if self.sizes[a] > 1 and self.sizes[b] > 1:
            kept, gone = self.find(a), self.find(b)
            self.parents[gone] = kept
            if gone not in self.copied:
                self.copied.discard(kept)

    def copy(self, nodes: Set[Node]) -> None:
        """Say that all elements along these new dims are the same."""
        self.copies |= nodes
        self.copied |= nodes

    def are_copies(self, nodes: Sequence[Node]) -> bool:
        """Whether all dims, so far, that are the same as one of `nodes` are in `copies`."""
        return all(self.find(node) in self.copied for node in nodes)

    def unite_all(self, a: Sequence[Node], b: Sequence[Node]) -> None:
        """Unite two lists of dims pairwise."""
        for left, right in zip(a, b, strict=True):
            self.unite(left, right)

    def value(
        self,
        aval: Any,
        dims: Sequence[Node] | None = None,
        view: Value | None = None,
        part: Value | None = None,
    ) -> Value:
        """A new value of the shape of `aval`; dims that are not given are new ones.

        view: the value whose data this one holds in another dtype or layout.
        part: the value that this one is a piece or a rescaling of.
        """
        shape = getattr(aval, "shape", ())
        nodes = tuple(self.node(size) for size in shape) if dims is None else tuple(dims)
        assert [self.sizes[n] for n in nodes] == list(shape), (nodes, shape, self.source)
        size = math.prod(shape) * getattr(getattr(aval, "dtype", None), "itemsize", 0)
        made = Value(nodes, size, len(self.values), self.data)
        if view is not None:
            made = replace(made, key=view.key, data=view.data, parameter=view.parameter)
        elif part is not None:
            made = replace(made, data=part.data, parameter=part.parameter)
        self.values.append(made)
        return made

    def use(self, kind: str, nodes: Sequence[Node], value: Value) -> None:
        """Record that the current equation moves `value` where one of `nodes` is split."""
        real = tuple(n for n in nodes if self.sizes[n] > 1)
        if real:
            self.uses.append(Use(kind, real, value, self.times, self.source))

    def used(self, kind: str) -> set[Node]:
        """The classes of the nodes of all uses of one kind."""
        return {self.find(n) for use in self.uses if use.kind == kind for n in use.nodes}

    def tie(self, a: Node, b: Node, kind: str, value: Value, array: tuple[Node, ...] = ()) -> None:
        """Unite two dims at the end, or record that the equation moves `value` (see Tie)."""
        self.ties.append(Tie(a, b, Use(kind, (a,), value, self.times, self.source), array))


def settle(graph: Graph, parts: Callable[[int], int]) -> None:
    """Unite the two dims of each tie, or record what it costs that they are two.

    A dim that is folded into (parts, rest) is the same as its parts, unless the parts are then
    taken apart: those of a fused kernel (q, k, v) are no shards, nor are the chunks of a sequence
    that a loop runs over. The output dim of a kernel is the same as the kernel's, unless that
    gives the kernel one class twice: then its columns are a class of their own, and come together
    after the product.
    A dim that is repeated is the same as the longer one (kv heads, heads), unless the longer one
    can have more parts: then each device copies what it needs.
    """
    taken = graph.used("part")
    looped = {graph.find(m) for m in graph.scanned}
    for tie in of_kind(graph, "part"):
        chunks = looped if tie.apart.value.data else set()
        if apart := graph.find(tie.b) in taken | chunks:
            graph.pieces.append((tie.a, graph.sizes[tie.a] // graph.sizes[tie.b]))
        join(graph, tie, apart)
    for tie in of_kind(graph, "repeat"):
        join(graph, tie, parts(graph.sizes[tie.a]) < parts(graph.sizes[tie.b]))
    for tie in of_kind(graph, "join"):
        others = {graph.find(m) for m in tie.array if m != tie.a}
        join(graph, tie, graph.find(tie.b) in others)
    graph.ties.clear()


def of_kind(graph: Graph, kind: str) -> list[Tie]:
    return [tie for tie in graph.ties if tie.apart.kind == kind]


def join(graph: Graph, tie: Tie, apart: bool) -> None:
    if apart:
        graph.uses.append(tie.apart)
    else:
        graph.unite(tie.a, tie.b)
