"""Rules of the products: dot_general, ragged_dot with its groups of rows, and convolutions."""

from __future__ import annotations

import math

import jax
from jax.extend.core import JaxprEqn, Var

from redco_plan.graph import Dot, Graph, Node, Value, shape_of
from redco_plan.walk import rule


@rule("dot_general")
def _dot_general(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Contract two arrays."""
    lhs, rhs = inputs
    return [_product(graph, eqn.outvars[0], eqn.params["dimension_numbers"], lhs, rhs)]


@rule("ragged_dot_general")
def _ragged_dot(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Multiply each group of rows with a kernel of its own (or make one of each group).

    The groups are as long as the data says: kernels or rows that are split must come together.
    """
    numbers, var = eqn.params["ragged_dot_dimension_numbers"], eqn.outvars[0]
    lhs, rhs, lengths = inputs[:3]
    grouped = tuple(numbers.rhs_group_dimensions)
    graph.use("cut", [lhs.dims[i] for i in numbers.lhs_ragged_dimensions], lhs)
    for i in grouped:
        graph.unite(rhs.dims[i], lengths.dims[-1])
    makes_kernels = len(shape_of(var)) > len(lhs.dims)
    first = lengths.dims[-1:] if makes_kernels else ()
    out = _product(graph, var, numbers.dot_dimension_numbers, lhs, rhs, grouped, first)
    graph.use("cut", [rhs.dims[i] for i in grouped], rhs)
    graph.use("cut", first, out)
    return [out]


def _product(
    graph: Graph,
    var: Var,
    numbers: jax.lax.DotDimensionNumbers,
    lhs: Value,
    rhs: Value,
    grouped: tuple[int, ...] = (),
    first: tuple[Node, ...] = (),
) -> Value:
    """Return a product: its contracted and batch dims are united, its free dims passed through.

    var: the variable of the output.
    numbers: the dimension numbers of jax.lax.dot_general.
    grouped: dims of rhs that only choose a kernel.
    first: dims that the output begins with.
    """
    (contract_l, contract_r), (batch_l, batch_r) = numbers
    contracted = tuple(lhs.dims[i] for i in contract_l)
    batch = tuple(lhs.dims[i] for i in batch_l)
    graph.unite_all(contracted, [rhs.dims[i] for i in contract_r])
    graph.unite_all(batch, [rhs.dims[i] for i in batch_r])
    free = _free_dims(graph, lhs, (*contract_l, *batch_l))
    free += _free_dims(graph, rhs, (*contract_r, *batch_r, *grouped))
    out = graph.value(var, [*first, *batch, *(column for _, _, column in free)])
    for operand, node, column in free:
        _tie_column(graph, operand, node, column, out)
    flops = 2 * math.prod(graph.sizes[n] for n in (*out.dims, *contracted))
    chosen = tuple(rhs.dims[i] for i in grouped)
    graph.dots.append(
        Dot(lhs, rhs, out, contracted, (*batch, *chosen), flops, graph.times, graph.source)
    )
    return out


def _free_dims(
    graph: Graph, operand: Value, used: tuple[int, ...]
) -> list[tuple[Value, Node, Node]]:
    """Return (operand, node, its node in the output) for the dims that are not `used`."""
    return [
        (operand, node, node if operand.parameter is None else graph.node(graph.sizes[node]))
        for i, node in enumerate(operand.dims)
        if i not in used
    ]


def _tie_column(graph: Graph, kernel: Value, node: Node, column: Node, out: Value) -> None:
    """Say that dim `node` of a kernel makes the dim `column` of a product, if it can (Tie)."""
    if kernel.parameter is None:
        graph.unite(node, column)
    else:
        graph.tie(node, column, "join", out, kernel.dims)


@rule("conv_general_dilated")
def _convolution(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Contract the input channels, at each place of the window."""
    numbers, shape = eqn.params["dimension_numbers"], shape_of(eqn.outvars[0])
    lhs, rhs = inputs
    batch, channels, *places = [lhs.dims[i] for i in numbers.lhs_spec]
    filters, contracted, *window = [rhs.dims[i] for i in numbers.rhs_spec]
    graph.window_dims += window
    grouped = eqn.params["feature_group_count"] > 1
    images = graph.node(shape[numbers.out_spec[0]])
    columns = graph.node(shape[numbers.out_spec[1]])
    if eqn.params["batch_group_count"] > 1:
        graph.use("cut", [batch], lhs)
        graph.unite(filters, columns)
    else:
        graph.unite(batch, images)
    dims: list[Node] = [0] * len(shape)
    dims[numbers.out_spec[0]], dims[numbers.out_spec[1]] = images, columns
    for place, i in zip(places, numbers.out_spec[2:], strict=True):
        same = graph.sizes[place] == shape[i]
        dims[i] = place if same else graph.node_from(place, shape[i])
        graph.use("cut", [place], lhs)
    out = graph.value(eqn.outvars[0], dims)
    if grouped:
        group = graph.node(eqn.params["feature_group_count"])
        graph.unite_all([group] * 3, [channels, filters, columns])
        graph.group_dims.append((group, graph.source))
        graph.use("cut", [contracted], lhs)
    else:
        graph.unite(channels, contracted)
        _tie_column(graph, rhs, filters, columns, out)
    flops = 2 * math.prod(shape) * math.prod(graph.sizes[n] for n in (contracted, *window))
    graph.dots.append(Dot(lhs, rhs, out, (contracted,), (), flops, graph.times, graph.source))
    return [out]
