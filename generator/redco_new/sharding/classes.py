"""Dimension classes with a role each: the logical axes of a model, found by what is done with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from redco_new.sharding.dims import Graph, Node
from redco_new.sharding.trace import Traced

LETTERS = {
    **{"batch": "B", "sequence": "S", "embed": "D", "mlp": "F", "heads": "N", "head_dim": "H"},
    **{"vocab": "V", "layers": "L", "positions": "T"},
}


@dataclass(frozen=True)
class Classes:
    """The classes of a traced model.

    parameter_dims: for each parameter, the class of each of its dims.
    sizes: all sizes that the dims of a class have (a split one has its major factor's too).
    labels: the role of each class that a parameter has.
    scanned, inputs: classes that a loop runs over; classes of the dims of the batch.
    """

    graph: Graph
    parameter_dims: tuple[tuple[Node, ...], ...]
    sizes: dict[Node, frozenset[int]]
    labels: dict[Node, str]
    scanned: frozenset[Node]
    inputs: frozenset[Node]


def find_classes(graph: Graph, traced: Traced) -> Classes:
    """The classes of a graph, labelled by role. No parameter's name is looked at."""
    n_parameters = len(traced.parameters)
    parameter_dims = tuple(
        tuple(graph.find(n) for n in value.dims) for value in graph.values[:n_parameters]
    )
    sizes: dict[Node, set[int]] = defaultdict(set)
    for node in range(len(graph.parents)):
        sizes[graph.find(node)].add(graph.sizes[node])
    batch = graph.values[n_parameters : len(traced.jaxpr.jaxpr.invars)]
    classes = Classes(
        graph=graph,
        parameter_dims=parameter_dims,
        sizes={node: frozenset(s) for node, s in sizes.items()},
        labels={},
        scanned=frozenset(graph.find(n) for n in graph.scanned),
        inputs=frozenset(graph.find(n) for value in batch for n in value.dims),
    )
    classes.labels.update(label(classes, traced))
    return classes


def label(classes: Classes, traced: Traced) -> dict[Node, str]:
    """A role for each class of the parameters: what the program does with it decides.

    layers: a loop runs over it.  heads: a batch dim of a product of two activations, and
    head_dim: contracted in one.  vocab: the longest table that is looked up by index, and what is
    made in its size; positions: a shorter table.  embed: of the rest, the one that most
    parameters have.  mlp: made by a product with one parameter and contracted by another.
    """
    graph, find = classes.graph, classes.graph.find
    longest = {node: max(sizes) for node, sizes in classes.sizes.items()}
    products = [d for d in graph.dots if d.lhs.parameter is None and d.rhs.parameter is None]
    weights = [d for d in graph.dots if d.lhs.parameter is not None or d.rhs.parameter is not None]
    contracted = {find(n) for d in weights for n in d.contracted}
    made = {find(n) for d in weights for n in d.out.dims}
    tables = {find(n) for use in graph.uses if use.kind == "index" for n in use.nodes}
    vocab = max((longest[n] for n in tables), default=0)
    roles = {
        "layers": classes.scanned,
        "heads": {find(n) for d in products for n in d.batch} - classes.inputs,
        "head_dim": {find(n) for d in products for n in d.contracted} - classes.inputs,
        "vocab": {n for n in tables | (made - contracted) if longest[n] == vocab},
        "positions": tables,
    }
    counts = Counter(n for dims in classes.parameter_dims for n in set(dims))
    labels = {
        node: next((role for role, nodes in roles.items() if node in nodes), "") for node in counts
    }
    rest = [node for node in counts if not labels[node]]
    if rest:
        labels[max(rest, key=lambda n: (counts[n], -n))] = "embed"
    for node in rest:
        labels[node] = labels[node] or ("mlp" if node in made & contracted else "inner")
    return labels
