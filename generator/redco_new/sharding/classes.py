"""Dimension classes of a program: the logical axes of a model, found by what is done with them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from redco_new.sharding.graph import Graph
from redco_new.sharding.graph import Node
from redco_new.sharding.graph import Value
from redco_new.sharding.trace import Traced
import math
from collections import Counter
from collections.abc import Set
from redco_new.sharding.graph import Dot

LETTERS = {
    **{"batch": "B", "sequence": "S", "embed": "D", "mlp": "F", "heads": "N", "head_dim": "H"},
    **{
        "vocab": "V",
        "layers": "L",
        "positions": "T",
        "experts": "E",
        "kv_heads": "K",
        "window": "W",
    },
}


@dataclass(frozen=True)
class Classes:
    """The classes of a traced model.

    batch: the arrays of the batch.
    parameter_dims: for each parameter, the class of each of its dims.
    sizes: all sizes that the dims of a class have (a split one has its major factor's too).
    order: the place of each class in the order in which the program uses them.
    labels: the role of each class that a parameter has (roles.py).
    scanned, windows: classes that a loop runs over, or a window of a convolution slides over.
    inputs: classes of the dims of the batch, and of their parts.
    """

    graph: Graph
    batch: tuple[Value, ...]
    parameter_dims: tuple[tuple[Node, ...], ...]
    sizes: dict[Node, frozenset[int]]
    order: dict[Node, int]
    labels: dict[Node, str]
    scanned: frozenset[Node]
    windows: frozenset[Node]
    inputs: frozenset[Node]


def find_classes(graph: Graph, traced: Traced) -> Classes:
    """The classes of a graph, without labels."""
    n_parameters = len(traced.parameters)
    parameter_dims = tuple(
        tuple(graph.find(n) for n in value.dims) for value in graph.values[:n_parameters]
    )
    sizes: dict[Node, set[int]] = defaultdict(set)
    for node in range(len(graph.parents)):
        sizes[graph.find(node)].add(graph.sizes[node])
    batch = tuple(graph.values[n_parameters : len(traced.jaxpr.jaxpr.invars)])
    return Classes(
        graph=graph,
        batch=batch,
        parameter_dims=parameter_dims,
        sizes={node: frozenset(s) for node, s in sizes.items()},
        order=order_of_use(graph, n_parameters),
        labels={},
        scanned=frozenset(graph.find(n) for n in graph.scanned),
        windows=frozenset(graph.find(n) for n in graph.windows),
        inputs=from_batch(graph, {graph.find(n) for value in batch for n in value.dims}),
    )


def from_batch(graph: Graph, found: set[Node]) -> frozenset[Node]:
    """Classes of the batch's dims, and of the dims that are made of their elements."""
    for made, node in graph.origins:  # in the order of the program: what is made, is made of later
        if graph.find(node) in found and graph.sizes[node] > 1:
            found.add(graph.find(made))
    return frozenset(found)


def order_of_use(graph: Graph, n_parameters: int) -> dict[Node, int]:
    """Classes in the order in which the program uses them, not that of the parameters' names."""
    order: dict[Node, int] = {}
    products = (nodes for d in graph.dots for nodes in (d.contracted, d.lhs.dims, d.rhs.dims))
    made = (value.dims for value in graph.values[n_parameters:] if value.parameter is None)
    stored = (by_size(graph, value.dims) for value in graph.values[:n_parameters])
    for nodes in (*products, *made, *stored):
        for node in nodes:
            order.setdefault(graph.find(node), len(order))
    return order


def by_size(graph: Graph, dims: tuple[Node, ...]) -> list[Node]:
    """The largest first, so that the order of a parameter's dims in memory decides nothing."""
    return sorted(dims, key=lambda node: -graph.sizes[node])


# The residual class shares parameters with at least this many others (heads, mlp, vocab).
HUB = 3


def label(classes: Classes) -> None:
    """Fill in the roles that the program alone gives away. No parameter's name is looked at.

    layers: a loop runs over it.  window: a convolution's window slides over it.
    heads: a batch dim of a product of two activations, and head_dim: contracted in one, or
    together with heads.  kv_heads: repeated, to be as many as the heads.  experts: a batch dim of a product with a parameter.
    vocab: the table that the batch looks up, and what is made in its size; positions: another
    table, or one that is added to the batch.  fused: made by one product, then taken apart.
    """
    find, dots, inputs = classes.graph.find, classes.graph.dots, classes.inputs
    counts = count(classes)
    weighted = [dot for dot in dots if weights_of(dot)]
    products = [dot for dot in dots if not weights_of(dot)]
    made = {find(n) for dot in weighted for n in dot.out.dims}
    contracted = {find(n) for dot in weighted for n in dot.contracted}
    heads = {find(n) for dot in products for n in dot.batch} - inputs
    summed = [set(map(find, dot.contracted)) for dot in weighted]
    looked_up, taken_apart = tables(classes), classes.graph.used("part")
    ends = (made - contracted) & counts.keys() - taken_apart
    longest = {node: max(classes.sizes[node]) for node in counts}
    vocab = vocab_size(looked_up, made, {longest[n] for n in ends}, longest)
    roles = {
        "layers": classes.scanned,
        "window": classes.windows,
        "heads": heads,
        "kv_heads": classes.graph.used("repeat"),
        "experts": {find(n) for dot in weighted for n in dot.batch} - inputs,
        "vocab": {n for n in looked_up.keys() | ends if longest[n] == vocab},
        "head_dim": {find(n) for dot in products for n in dot.contracted} - inputs - contracted
        | {n for nodes in summed if nodes & heads for n in nodes},
        "positions": looked_up.keys() | (taken_apart | inputs) - kernels(classes),
        "fused": taken_apart - contracted,
    }
    for node in counts:
        classes.labels[node] = next((role for role, nodes in roles.items() if node in nodes), "")


def label_rest(classes: Classes, split: Set[Node]) -> None:
    """Fill in the roles that the layout gives away.

    embed: not split (unless all are), and in most of the parameters around it.
    mlp: contracted by a product with a parameter.  inner: anything else.
    """
    find, counts = classes.graph.find, count(classes)
    near, rest = neighbours(classes), [n for n in counts if not classes.labels[n]]
    summed = {find(n) for dot in classes.graph.dots if weights_of(dot) for n in dot.contracted}
    large = {n for n in rest if len(near[n]) >= HUB}
    hubs = {n for n in large - split if all(counts[n] >= counts[m] for m in near[n] - split)}
    hubs = hubs or {n for n in large if all(counts[n] >= counts[m] for m in near[n])}
    for node in rest:
        inner = "mlp" if node in summed - classes.inputs else "inner"
        classes.labels[node] = "embed" if node in hubs else inner


def count(classes: Classes) -> Counter[Node]:
    """How many parameters have each class; one that a loop runs over counts for each layer."""
    counts: Counter[Node] = Counter()
    for dims in classes.parameter_dims:
        layers = math.prod(max(classes.sizes[n]) for n in dims if n in classes.scanned)
        counts.update(dict.fromkeys(dims, layers))
    return counts


def vocab_size(
    looked_up: dict[Node, bool], made: Set[Node], ends: Set[int], longest: dict[Node, int]
) -> int:
    """The longest table that the batch looks up; if there are any, of those also made at the end."""
    by_batch = [n for n, ours in looked_up.items() if ours]
    tied = [n for n in by_batch if n in made or longest[n] in ends]
    return max((longest[n] for n in tied or by_batch), default=0)


def weights_of(dot: Dot) -> list[int]:
    """Indices of the parameters that are operands of a product."""
    return [v.parameter for v in (dot.lhs, dot.rhs) if v.parameter is not None]


def tables(classes: Classes) -> dict[Node, bool]:
    """Classes of parameters whose rows are looked up: whether by the batch, or by constants."""
    found: dict[Node, bool] = {}
    for use in classes.graph.uses:
        if use.kind == "index":
            for node in map(classes.graph.find, use.nodes):
                found[node] = found.get(node, False) or use.value.data
    ours = {node for dims in classes.parameter_dims for node in dims}
    return {node: by_batch for node, by_batch in found.items() if node in ours}


def kernels(classes: Classes) -> set[Node]:
    """Classes of the parameters that a product has as an operand, and classes that one makes."""
    find, dots = classes.graph.find, classes.graph.dots
    indices = {index for dot in dots for index in weights_of(dot)}
    made = {find(n) for dot in dots for n in dot.out.dims if find(n) not in classes.inputs}
    return made | {n for index in indices for n in classes.parameter_dims[index]}


def neighbours(classes: Classes) -> dict[Node, set[Node]]:
    """For each class, the others that share a parameter with it."""
    near: dict[Node, set[Node]] = defaultdict(set)
    for dims in classes.parameter_dims:
        real = set(dims) - classes.scanned - classes.windows
        for node in dims:
            near[node] |= real - {node}
    return near
