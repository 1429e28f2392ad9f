"""Traced program -> graph: the rules of its primitives, then its ties.

A rule says of one primitive which dims of its inputs and outputs are the same, and what it does
with the others. `walk` holds the rules of the primitives that hold programs of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redco_plan.graph import Graph, Tie
from redco_plan.rules import products, shapes, slices  # noqa: F401  (they register rules)
from redco_plan.trace import Program
from redco_plan.walk import walk_jaxpr


def build_graph(program: Program, parts: Callable[[int], int]) -> Graph:
    """Return the graph of a program: its first values are the parameters, then the batch.

    parts: size of a dim -> the number of parts that it can be divided into.
    """
    graph = Graph()
    jaxpr = program.jaxpr.jaxpr
    inputs = [graph.value(var) for var in jaxpr.invars]
    for i, value in enumerate(inputs):
        is_parameter = i < len(program.parameters)
        value = replace(value, parameter=i) if is_parameter else replace(value, data=True)
        inputs[i] = graph.values[i] = value
    walk_jaxpr(graph, jaxpr, inputs)
    _unite_ties(graph, parts)
    return graph


def _unite_ties(graph: Graph, parts: Callable[[int], int]) -> None:
    """Unite the two dims of every tie, or record what it costs that they are two.

    parts: size of a dim -> the number of parts that it can be divided into.

    A dim that is folded into (parts, rest) is the same as its parts, unless the parts are then
    taken apart: those of a fused kernel (q, k, v) are no shards, nor are the chunks of a sequence
    that a loop runs over. The output dim of a kernel is the same as the kernel's, unless that
    gives the kernel one class twice: then its columns are a class of their own, and come together
    after the product.
    A dim that is repeated is the same as the longer one (kv heads, heads), unless the longer one
    can have more parts: then every device copies what it needs.
    """
    apart = graph.used("part")
    loops = {graph.find(n) for n in graph.loop_dims}
    for tie in _ties_of_kind(graph, "part"):
        chunks = loops if tie.otherwise.value.data else set()
        differ = graph.find(tie.b) in apart | chunks
        if differ:
            graph.folds.append((tie.a, tie.b))
        _resolve(graph, tie, differ)
    for tie in _ties_of_kind(graph, "repeat"):
        _resolve(graph, tie, parts(graph.sizes[tie.a]) < parts(graph.sizes[tie.b]))
    for tie in _ties_of_kind(graph, "join"):
        others = {graph.find(n) for n in tie.array if n != tie.a}
        _resolve(graph, tie, graph.find(tie.b) in others)
    graph.ties.clear()


def _ties_of_kind(graph: Graph, kind: str) -> list[Tie]:
    """Return the ties whose `otherwise` is a use of one kind."""
    return [tie for tie in graph.ties if tie.otherwise.kind == kind]


def _resolve(graph: Graph, tie: Tie, differ: bool) -> None:
    """Unite the two dims of a tie, or record its use if they differ."""
    if differ:
        graph.uses.append(tie.otherwise)
    else:
        graph.unite(tie.a, tie.b)
