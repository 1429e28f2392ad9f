"""One rule a primitive: which dims of its inputs and outputs are the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from redco_new.sharding.dims import Dot, Graph, Node, Value, rule

ELEMENTWISE = """
abs acos acosh add and asin asinh atan atan2 atanh bitcast_convert_type cbrt ceil clamp clz complex
conj copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt imag integer_pow is_finite le
lgamma log log1p logistic lt max min mul mulhi
ne neg nextafter not or population_count pow real
reduce_precision rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical
sign sin sinh sqrt square stop_gradient sub tan tanh xor add_any
""".split()


@rule(*ELEMENTWISE)
def elementwise(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Dims at the same place are the same; those of size 1, and scalars, are broadcast."""
    shaped = [value for value in inputs if value.dims]
    dims: list[Node] = []
    for column in zip(*(value.dims for value in shaped), strict=True):
        widest = max(column, key=lambda node: graph.sizes[node])
        for node in column:
            graph.unite(widest, node)
        dims.append(widest)
    return [graph.value(var.aval, dims) for var in eqn.outvars]


@rule("convert_element_type", "sharding_constraint", "optimization_barrier", "name")
def view(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The same data in the same layout."""
    return [graph.value(v.aval, x.dims, x) for v, x in zip(eqn.outvars, inputs, strict=True)]


@rule("transpose")
def transpose(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    dims = [inputs[0].dims[i] for i in eqn.params["permutation"]]
    return [graph.value(eqn.outvars[0].aval, dims, inputs[0])]


@rule("squeeze")
def squeeze(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    dims = [n for i, n in enumerate(inputs[0].dims) if i not in eqn.params["dimensions"]]
    return [graph.value(eqn.outvars[0].aval, dims, inputs[0])]


@rule("broadcast_in_dim")
def broadcast_in_dim(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    shape = eqn.outvars[0].aval.shape
    source = dict(zip(eqn.params["broadcast_dimensions"], inputs[0].dims, strict=True))
    dims = [
        source[i] if i in source and graph.sizes[source[i]] == size else graph.node(size)
        for i, size in enumerate(shape)
    ]
    return [graph.value(eqn.outvars[0].aval, dims, inputs[0])]


@rule("reshape")
def reshape(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The major factor of a merge or a split is the same dim as the whole."""
    out = graph.value(eqn.outvars[0].aval, view=inputs[0])
    for before, after in reshape_groups(graph, inputs[0].dims, out.dims):
        graph.unite(before[0], after[0])
        graph.use("cut", before[1:], inputs[0])
    return [out]


def reshape_groups(
    graph: Graph, before: tuple[Node, ...], after: tuple[Node, ...]
) -> list[tuple[list[Node], list[Node]]]:
    """Smallest runs of dims with equal products, dims of size 1 left out."""
    left = [n for n in before if graph.sizes[n] != 1]
    right = [n for n in after if graph.sizes[n] != 1]
    groups = []
    while left and right:
        a, b = [left.pop(0)], [right.pop(0)]
        size_a, size_b = graph.sizes[a[0]], graph.sizes[b[0]]
        while size_a != size_b:
            if size_a < size_b:
                a.append(left.pop(0))
                size_a *= graph.sizes[a[-1]]
            else:
                b.append(right.pop(0))
                size_b *= graph.sizes[b[-1]]
        groups.append((a, b))
    return groups


@rule("dot_general")
def dot_general(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    (contract_l, contract_r), (batch_l, batch_r) = eqn.params["dimension_numbers"]
    lhs, rhs = inputs
    graph.unite_all([lhs.dims[i] for i in contract_l], [rhs.dims[i] for i in contract_r])
    graph.unite_all([lhs.dims[i] for i in batch_l], [rhs.dims[i] for i in batch_r])
    batch = [lhs.dims[i] for i in batch_l]
    free_l = [n for i, n in enumerate(lhs.dims) if i not in (*contract_l, *batch_l)]
    free_r = [n for i, n in enumerate(rhs.dims) if i not in (*contract_r, *batch_r)]
    out = graph.value(eqn.outvars[0].aval, [*batch, *free_l, *free_r])
    contracted = tuple(lhs.dims[i] for i in contract_l)
    sizes = [graph.sizes[n] for n in (*out.dims, *contracted)]
    flops = 2 * int(np.prod(sizes, dtype=np.int64))
    graph.dots.append(
        Dot(lhs, rhs, out, contracted, tuple(batch), flops, graph.times, graph.source)
    )
    return [out]


@rule(
    *("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor".split()),
    *("argmax", "argmin"),
)
def reduce(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    axes = eqn.params["axes"]
    dims = [n for i, n in enumerate(inputs[0].dims) if i not in axes]
    out = graph.value(eqn.outvars[0].aval, dims)
    graph.use("reduce", [inputs[0].dims[i] for i in axes], out)
    return [out]


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def cumulative(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    graph.use("cut", [inputs[0].dims[eqn.params["axis"]]], inputs[0])
    return [graph.value(eqn.outvars[0].aval, inputs[0].dims)]


@rule(
    "iota", "random_seed", "random_wrap", "random_unwrap", "random_bits", "random_fold_in", "empty"
)
def source(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Values that come from nowhere, or from a random key: new dims."""
    return [graph.value(var.aval) for var in eqn.outvars]
