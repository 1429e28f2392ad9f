"""Dimension classes of a program: the logical axes of a model, found by what is done with them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from redco_new.sharding.dims import Graph, Node, Value
from redco_new.sharding.trace import Traced

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
