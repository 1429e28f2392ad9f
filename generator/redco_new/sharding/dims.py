"""Jaxpr -> dimension classes: which dims of which values are the same dim.

Each dim of each value has a node. Every equation says which nodes are the same (rules.py), and
what it does with the others: contract, reduce, index or cut them. The classes of equal nodes are
the model's logical axes; the uses of a class are what it costs to split it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal

from redco_new.sharding.trace import Traced

Node = int


@dataclass(frozen=True)
class Value:
    """An array in the traced program.

    dims: one node a dim.  bytes: of the whole array.
    key: the same for all values that hold the same data, whatever their dtype or layout.
    parameter: index of the parameter that it is a view of, or None.
    """

    dims: tuple[Node, ...]
    bytes: int
    key: int
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


@dataclass(frozen=True)
class Use:
    """An operation that is not local once one of `nodes` is split: it moves `value`.

    kind: "reduce" (the operation sums over the node), "index" (it looks rows up along it), or
    "cut" (it slices, sorts, joins or shifts along it).
    """

    kind: str
    nodes: tuple[Node, ...]
    value: Value
    times: int
    source: str


@dataclass
class Graph:
    """Union-find over the dims of a program, and what the program does with them."""

    sizes: list[int] = field(default_factory=list)
    parents: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    scanned: list[Node] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)
    times: int = 1
    source: str = ""

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
            self.parents[self.find(b)] = self.find(a)

    def unite_all(self, a: Sequence[Node], b: Sequence[Node]) -> None:
        """Unite two lists of dims pairwise."""
        for left, right in zip(a, b, strict=True):
            self.unite(left, right)

    def value(
        self, aval: Any, dims: Sequence[Node] | None = None, view: Value | None = None
    ) -> Value:
        """A new value of the shape of `aval`; dims that are not given are new ones.

        view: the value whose data this one holds in another dtype or layout.
        """
        shape = getattr(aval, "shape", ())
        nodes = tuple(self.node(size) for size in shape) if dims is None else tuple(dims)
        assert [self.sizes[n] for n in nodes] == list(shape), (nodes, shape, self.source)
        itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 0)
        size = int(np.prod(shape, dtype=np.int64)) * itemsize
        made = Value(nodes, size, len(self.values))
        if view is not None:
            made = replace(made, key=view.key, parameter=view.parameter)
        self.values.append(made)
        return made

    def use(self, kind: str, nodes: Sequence[Node], value: Value) -> None:
        """Record that the current equation moves `value` where one of `nodes` is split."""
        real = tuple(n for n in nodes if self.sizes[n] > 1)
        if real:
            self.uses.append(Use(kind, real, value, self.times, self.source))


Rule = Callable[[Graph, Any, list[Value]], list[Value]]
RULES: dict[str, Rule] = {}


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register the rule of one or several primitives, by name."""

    def register(function: Rule) -> Rule:
        for primitive in primitives:
            assert primitive not in RULES, primitive
            RULES[primitive] = function
        return function

    return register


def build_graph(traced: Traced) -> Graph:
    """The graph of a traced forward pass. Its first values are the parameters, then the batch."""
    from redco_new.sharding import control, rules, slices  # noqa: F401  (they fill RULES)

    graph = Graph()
    jaxpr = traced.jaxpr.jaxpr
    inputs = [graph.value(var.aval) for var in jaxpr.invars]
    for i in range(len(traced.parameters)):
        inputs[i] = graph.values[i] = replace(inputs[i], parameter=i)
    run(graph, jaxpr, traced.jaxpr.consts, inputs)
    return graph


def run(graph: Graph, jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
    """Apply the rules to each equation of `jaxpr`; the values of its outputs."""
    env = dict(zip(jaxpr.invars, inputs, strict=True))
    env.update((var, graph.value(var.aval)) for var in jaxpr.constvars)

    def read(atom: Any) -> Value:
        return graph.value(atom.aval) if isinstance(atom, Literal) else env[atom]

    outer = graph.source
    for eqn in jaxpr.eqns:
        graph.source = source_line(eqn) or outer
        apply = RULES.get(eqn.primitive.name, unknown)
        outputs = apply(graph, eqn, [read(atom) for atom in eqn.invars])
        env.update(zip(eqn.outvars, outputs, strict=True))
    graph.source = outer
    return [read(atom) for atom in jaxpr.outvars]


def unknown(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """A primitive without a rule: nothing is known of its dims, so none of them may be split."""
    graph.unknown.setdefault(eqn.primitive.name, graph.source)
    for value in inputs:
        graph.use("cut", value.dims, value)
    return [graph.value(var.aval) for var in eqn.outvars]


def source_line(eqn: Any) -> str:
    """`file.py:12 (function)` of the user's line that made an equation, or ""."""
    frame = source_info_util.user_frame(eqn.source_info.traceback)
    if frame is None:
        return ""
    return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.start_line} ({frame.function_name})"
