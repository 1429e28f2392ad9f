"""Rules of the primitives that slide a window: convolutions, pooling, Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

from redco_new.sharding.dims import Dot, Graph, Node, Value, rule
from redco_new.sharding.products import make
from redco_new.sharding.slices import derived


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


@rule(
    *("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"),
    *("select_and_gather_add", "select_and_scatter_add", "select_and_scatter"),
)
def pool(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Dims with a window of 1 pass through; the others are cut, whatever size they get."""
    shape = eqn.params["window_dimensions"]
    shaped = [value for value in inputs if value.dims]
    source = next(v for v in shaped if len(v.dims) == len(shape))
    made = []
    for var in eqn.outvars:
        dims = []
        for i, size in enumerate(var.aval.shape):
            same = [v.dims[i] for v in shaped if graph.sizes[v.dims[i]] == size]
            dims.append(same[0] if same else derived(graph, source.dims[i], size))
            for node in same:
                graph.unite(dims[i], node)
        made.append(graph.value(var.aval, dims))
    graph.use("cut", [n for n, width in zip(source.dims, shape, strict=True) if width > 1], source)
    return made


@rule("fft")
def fft(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The transformed dims, the last ones, need every element."""
    count, aval = len(eqn.params["fft_lengths"]), eqn.outvars[0].aval
    graph.use("cut", inputs[0].dims[-count:], inputs[0])
    dims = [
        node if graph.sizes[node] == size else graph.node(size)
        for node, size in zip(inputs[0].dims, aval.shape, strict=True)
    ]
    return [graph.value(aval, dims)]
