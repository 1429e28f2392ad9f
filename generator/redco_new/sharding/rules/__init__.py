"""The rules of the primitives, and the graph that they make of a traced program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redco_new.sharding.graph import Graph, settle
from redco_new.sharding.rules import products, shapes, slices  # noqa: F401  (they fill RULES)
from redco_new.sharding.trace import Traced
from redco_new.sharding.walk import run


def build_graph(traced: Traced, parts: Callable[[int], int]) -> Graph:
    """Return the graph of a traced forward pass.

    Its first values are the parameters, then the batch.
    """
    graph = Graph()
    jaxpr = traced.jaxpr.jaxpr
    inputs = [graph.value(var.aval) for var in jaxpr.invars]
    n_parameters = len(traced.parameters)
    for i, value in enumerate(inputs):
        known = replace(value, parameter=i) if i < n_parameters else replace(value, data=True)
        inputs[i] = graph.values[i] = known
    run(graph, jaxpr, traced.jaxpr.consts, inputs)
    settle(graph, parts)
    return graph
