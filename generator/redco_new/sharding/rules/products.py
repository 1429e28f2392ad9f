"""Rules of the products: dot_general, and ragged_dot with its groups of rows."""

from __future__ import annotations

import math
from typing import Any
from redco_new.sharding.graph import Dot
from redco_new.sharding.graph import Graph
from redco_new.sharding.graph import Node
from redco_new.sharding.graph import Value
from redco_new.sharding.walk import rule
from redco_new.sharding.rules.slices import derived


@rule("dot_general")
def dot_general(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    lhs, rhs = inputs
    return [product(graph, eqn.outvars[0].aval, eqn.params["dimension_numbers"], lhs, rhs)]


@rule("ragged_dot_general")
def ragged_dot(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """A product in which each group of rows has a kernel of its own (or makes one).

    The groups are as long as the data says: kernels or rows that are split must come together.
    """
    numbers, aval = eqn.params["ragged_dot_dimension_numbers"], eqn.outvars[0].aval
    lhs, rhs, lengths = inputs[:3]
    grouped = tuple(numbers.rhs_group_dimensions)
    graph.use("cut", [lhs.dims[i] for i in numbers.lhs_ragged_dimensions], lhs)
    for i in grouped:
        graph.unite(rhs.dims[i], lengths.dims[-1])
    made = len(aval.shape) > len(lhs.dims)
    first = lengths.dims[-1:] if made else ()
    out = product(graph, aval, numbers.dot_dimension_numbers, lhs, rhs, grouped, first)
    graph.use("cut", [rhs.dims[i] for i in grouped], rhs)
    graph.use("cut", first, out)
    return [out]


def product(
    graph: Graph,
    aval: Any,
    numbers: Any,
    lhs: Value,
    rhs: Value,
    grouped: tuple[int, ...] = (),
    first: tuple[Node, ...] = (),
) -> Value:
    """Contracted and batch dims are the same on both sides; free dims go to the output.

    grouped: dims of rhs that only choose a kernel.  first: dims that the output begins with.
    """
    (contract_l, contract_r), (batch_l, batch_r) = numbers
    contracted = tuple(lhs.dims[i] for i in contract_l)
    batch = tuple(lhs.dims[i] for i in batch_l)
    graph.unite_all(contracted, [rhs.dims[i] for i in contract_r])
    graph.unite_all(batch, [rhs.dims[i] for i in batch_r])
    free = free_dims(graph, lhs, (*contract_l, *batch_l))
    free += free_dims(graph, rhs, (*contract_r, *batch_r, *grouped))
    out = graph.value(aval, [*first, *batch, *(made for _, _, made in free)])
    for operand, node, made in free:
        make(graph, operand, node, made, out)
    flops = 2 * math.prod(graph.sizes[n] for n in (*out.dims, *contracted))
    chosen = tuple(rhs.dims[i] for i in grouped)
    graph.dots.append(
        Dot(lhs, rhs, out, contracted, (*batch, *chosen), flops, graph.times, graph.source)
    )
    return out


def free_dims(
    graph: Graph, operand: Value, taken: tuple[int, ...]
) -> list[tuple[Value, Node, Node]]:
    """The other dims of an operand, each with the node that it has in the output."""
    return [
        (operand, node, node if operand.parameter is None else graph.node(graph.sizes[node]))
        for i, node in enumerate(operand.dims)
        if i not in taken
    ]


def make(graph: Graph, kernel: Value, node: Node, made: Node, out: Value) -> None:
    """Say that dim `node` of a kernel makes the dim `made` of a product, if it can (ties.py)."""
    if kernel.parameter is None:
        graph.unite(node, made)
    else:
        graph.tie(node, made, "join", out, kernel.dims)


@rule("conv_general_dilated")
def convolution(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """A product over the input channels, at each place of the window."""
    numbers, aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    lhs, rhs = inputs
    batch, channels, *places = [lhs.dims[i] for i in numbers.lhs_spec]
    made, contracted, *window = [rhs.dims[i] for i in numbers.rhs_spec]
    graph.windows += window
    grouped = eqn.params["feature_group_count"] > 1
    images = graph.node(aval.shape[numbers.out_spec[0]])
    columns = graph.node(aval.shape[numbers.out_spec[1]])
    if eqn.params["batch_group_count"] > 1:
        graph.use("cut", [batch], lhs)
        graph.unite(made, columns)
    else:
        graph.unite(batch, images)
    dims: list[Node] = [0] * len(aval.shape)
    dims[numbers.out_spec[0]], dims[numbers.out_spec[1]] = images, columns
    for place, i in zip(places, numbers.out_spec[2:], strict=True):
        same = graph.sizes[place] == aval.shape[i]
        dims[i] = place if same else derived(graph, place, aval.shape[i])
        graph.use("cut", [place], lhs)
    out = graph.value(aval, dims)
    if grouped:
        group = graph.node(eqn.params["feature_group_count"])
        graph.unite_all([group] * 3, [channels, made, columns])
        graph.grouped.append((group, graph.source))
        graph.use("cut", [contracted], lhs)
    else:
        graph.unite(channels, contracted)
        make(graph, rhs, made, columns, out)
    flops = 2 * math.prod(aval.shape) * math.prod(graph.sizes[n] for n in (contracted, *window))
    graph.dots.append(Dot(lhs, rhs, out, (contracted,), (), flops, graph.times, graph.source))
    return [out]
