"""Which dims of which values of a program are the same dim, and what the program does with them.

Each dim of each value has a node. Every equation says which nodes are the same (rules/), and
what it does with the others: contract, reduce, index or cut them. The classes of equal nodes are
the model's logical axes; the uses of a class are what it costs to split it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

Node = int
Atom = Var | Literal


@dataclass(frozen=True)
class Value:
    """An array in the traced program.

    dims: one node a dim.
    bytes: of the whole array.
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
    """A product of two arrays; its nodes are those of the operands.

    contracted: summed over.
    batch: dims that both operands have and the output too, or that only choose a kernel.
    flops: of one pass.
    times: how often a step makes it.
    source: the user's line.
    """

    lhs: Value
    rhs: Value
    out: Value
    contracted: tuple[Node, ...]
    batch: tuple[Node, ...]
    flops: int
    times: int
    source: str

    @property
    def dividing(self) -> set[Node]:
        """Nodes that divide the work once they are split: all but those that choose a kernel."""
        choosing = set(self.batch) - set(self.out.dims)
        return {*self.lhs.dims, *self.rhs.dims, *self.contracted} - choosing


@dataclass(frozen=True)
class Use:
    """An operation that is not local once one of `nodes` is split: it moves `value`.

    kind: what it does with the node.
        "reduce": sums over it.
        "index": looks rows up along it.
        "part": takes it apart into smaller dims.
        "join": brings its parts together, because the whole array is needed.
        "repeat": makes several of each of its elements.
        "fold": has it as a minor factor of a merge or a split.
        "cut": slices, sorts, joins or shifts along it.
    times: how often a step does it.
    source: the user's line.
    """

    kind: str
    nodes: tuple[Node, ...]
    value: Value
    times: int
    source: str


@dataclass(frozen=True)
class Tie:
    """Two nodes that are the same unless the rest of the program speaks against it (rules/__init__.py).

    otherwise: the use to record of `a` if they are not the same; its kind says what would speak
        against it.
    array: all nodes of the array that holds `a`, for a tie of kind "join".
    """

    a: Node
    b: Node
    otherwise: Use
    array: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Body:
    """One pass through a jaxpr: a function that is called twice has two.

    values: of its variables.
    inner: for each equation, the passes through the jaxprs in it.
    """

    jaxpr: Jaxpr
    values: Mapping[Var, Value]
    inner: list[tuple[Body, ...]]

    def equations(self) -> Iterator[tuple[Body, JaxprEqn, tuple[Body, ...]]]:
        """Yield every equation, after those inside it: its body, itself, and the bodies in it."""
        for eqn, inner in zip(self.jaxpr.eqns, self.inner, strict=True):
            for body in inner:
                yield from body.equations()
            yield self, eqn, inner

    def value(self, atom: Atom) -> Value | None:
        """Return the value of an operand; None for a literal."""
        return None if isinstance(atom, Literal) else self.values[atom]


@dataclass
class Graph:
    """Union-find over the dims of a program, and what the program does with them.

    sizes: elements of each node.
    parents: a node that is the same as each node; roots are their own.
    values: all arrays; the first are the parameters, then the batch.
    dots: all products.
    uses: all operations that are not local where a dim is split.
    ties: pairs of dims that may be the same; empty once the graph is complete.
    loop_dims: dims that a loop runs over.
    window_dims: dims that the window of a convolution slides over.
    copies: dims along which all elements are the same.
    copy_classes: the representatives of classes of nothing but such dims.
    origins: (new, old) where a dim has some of an old one's elements, in another number.
    runs: (whole, start, part) where the elements of a dim from `start` on are those of another, by a
        cut or a join.
    folds: (whole, major) where a dim is folded into its parts, and these are taken apart.
    merges: the dims that are merged into one, together.
    group_dims: (channels, line) of grouped convolutions.
    unknown_primitives: primitive without a rule -> its line.
    bodies: passes through the jaxprs that the walk has just been through; at the end, the first
        is the whole program.
    times: how often a step passes the current equation.
    source: the line of the current equation.
    data: whether the current equation depends on the batch.
    """

    sizes: list[int] = field(default_factory=list)
    parents: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    loop_dims: list[Node] = field(default_factory=list)
    window_dims: list[Node] = field(default_factory=list)
    copies: set[Node] = field(default_factory=set)
    copy_classes: set[Node] = field(default_factory=set)
    origins: list[tuple[Node, Node]] = field(default_factory=list)
    runs: list[tuple[Node, int, Node]] = field(default_factory=list)
    folds: list[tuple[Node, Node]] = field(default_factory=list)
    merges: list[tuple[Node, ...]] = field(default_factory=list)
    group_dims: list[tuple[Node, str]] = field(default_factory=list)
    unknown_primitives: dict[str, str] = field(default_factory=dict)
    bodies: list[Body] = field(default_factory=list)
    times: int = 1
    source: str = ""
    data: bool = False

    def node(self, size: int) -> Node:
        """Return a new node for a dim of `size` elements."""
        self.sizes.append(int(size))
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def node_from(self, old: Node, size: int) -> Node:
        """Return a new node for a dim of `size` elements that come from those of `old`."""
        new = self.node(size)
        self.origins.append((new, old))
        return new

    def find(self, node: Node) -> Node:
        """Return the representative of the class of `node`."""
        root = node
        while self.parents[root] != root:
            root = self.parents[root]
        while self.parents[node] != root:
            self.parents[node], node = root, self.parents[node]
        return root

    def unite(self, a: Node, b: Node) -> None:
        """Say that two dims are the same. A dim of size 1 is no dim: it is never united."""
        if self.sizes[a] > 1 and self.sizes[b] > 1:
            root, absorbed = self.find(a), self.find(b)
            self.parents[absorbed] = root
            if absorbed not in self.copy_classes:
                self.copy_classes.discard(root)

    def copy(self, nodes: Set[Node]) -> None:
        """Say that all elements along these new dims are the same."""
        self.copies |= nodes
        self.copy_classes |= nodes

    def are_copies(self, nodes: Sequence[Node]) -> bool:
        """Return whether all dims, so far, that are the same as one of `nodes` are in `copies`."""
        return all(self.find(node) in self.copy_classes for node in nodes)

    def unite_all(self, a: Sequence[Node], b: Sequence[Node]) -> None:
        """Unite two lists of dims pairwise."""
        for left, right in zip(a, b, strict=True):
            self.unite(left, right)

    def value(
        self,
        atom: Atom,
        dims: Sequence[Node] | None = None,
        view: Value | None = None,
        part: Value | None = None,
    ) -> Value:
        """Return a new value of the shape of `atom`; without `dims`, these are new ones.

        view: the value whose data this one holds in another dtype or layout.
        part: the value that this one is a piece or a rescaling of.
        """
        shape = shape_of(atom)
        nodes = tuple(self.node(size) for size in shape) if dims is None else tuple(dims)
        assert [self.sizes[n] for n in nodes] == list(shape), (nodes, shape, self.source)
        size = math.prod(shape) * getattr(getattr(atom.aval, "dtype", None), "itemsize", 0)
        value = Value(nodes, size, len(self.values), self.data)
        if view is not None:
            value = replace(value, key=view.key, data=view.data, parameter=view.parameter)
        elif part is not None:
            value = replace(value, data=part.data, parameter=part.parameter)
        self.values.append(value)
        return value

    def use(self, kind: str, nodes: Sequence[Node], value: Value) -> None:
        """Record that the current equation moves `value` where one of `nodes` is split."""
        real = tuple(n for n in nodes if self.sizes[n] > 1)
        if real:
            self.uses.append(Use(kind, real, value, self.times, self.source))

    def used(self, kind: str) -> set[Node]:
        """Return the classes of the nodes of all uses of one kind."""
        return {self.find(n) for use in self.uses if use.kind == kind for n in use.nodes}

    def tie(self, a: Node, b: Node, kind: str, value: Value, array: tuple[Node, ...] = ()) -> None:
        """Unite two dims at the end, or record that the equation moves `value` (see Tie)."""
        self.ties.append(Tie(a, b, Use(kind, (a,), value, self.times, self.source), array))


def shape_of(atom: Atom) -> tuple[int, ...]:
    """Return the shape of a variable or a literal; () for a token, which has none."""
    return getattr(atom.aval, "shape", ())
