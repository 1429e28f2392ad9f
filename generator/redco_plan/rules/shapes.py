"""Rules of the primitives that compute element by element, change shapes, or reduce."""

from __future__ import annotations

from jax.extend.core import JaxprEqn

from redco_plan.graph import Graph, Node, Value, shape_of
from redco_plan.apart.forms import ELEMENTWISE
from redco_plan.walk import rule


@rule(*ELEMENTWISE)
def _elementwise(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Unite dims at the same place; those of size 1, and scalars, are broadcast."""
    shaped = [value for value in inputs if value.dims]
    dims: list[Node] = []
    for column in zip(*(value.dims for value in shaped), strict=True):
        widest = max(column, key=lambda node: graph.sizes[node])
        for node in column:
            graph.unite(widest, node)
        dims.append(widest)
    # What is computed of parameters alone is a rescaling of the largest of them.
    kernels = [(graph.values[v.parameter].bytes, v) for v in shaped if v.parameter is not None]
    _, main = max(kernels, key=lambda pair: pair[0], default=(0, None))
    part = None if graph.data else main
    return [graph.value(var, dims, part=part) for var in eqn.outvars]


@rule(
    *("convert_element_type", "sharding_constraint", "optimization_barrier", "name", "reshard"),
    "layout_constraint",
)
def _view(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Hand on the same data in the same layout."""
    return [graph.value(v, x.dims, x) for v, x in zip(eqn.outvars, inputs, strict=True)]


@rule("transpose")
def _transpose(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Permute the dims."""
    dims = [inputs[0].dims[i] for i in eqn.params["permutation"]]
    return [graph.value(eqn.outvars[0], dims, inputs[0])]


@rule("squeeze")
def _squeeze(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Leave out dims of size 1."""
    dims = [n for i, n in enumerate(inputs[0].dims) if i not in eqn.params["dimensions"]]
    return [graph.value(eqn.outvars[0], dims, inputs[0])]


@rule("broadcast_in_dim")
def _broadcast_in_dim(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Add dims along which all elements are the same."""
    shape = shape_of(eqn.outvars[0])
    source = dict(zip(eqn.params["broadcast_dimensions"], inputs[0].dims, strict=True))
    dims = [
        source[i] if i in source and graph.sizes[source[i]] == size else graph.node(size)
        for i, size in enumerate(shape)
    ]
    graph.copy(set(dims) - set(source.values()))
    return [graph.value(eqn.outvars[0], dims, inputs[0])]


@rule("reshape")
def _reshape(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Tie the major factor of a merge or a split to the whole: splitting one splits the other.

    Dims made of one along which all elements are the same are such dims too.
    """
    out = graph.value(eqn.outvars[0], view=inputs[0])
    for before, after in _reshape_groups(graph, inputs[0].dims, out.dims):
        if len(before) == 1 < len(after) and graph.are_copies(before):
            graph.copy(set(after))
            continue
        if len(before) == 1 < len(after):
            graph.tie(before[0], after[0], "part", inputs[0])
        elif len(after) == 1 < len(before) and graph.are_copies(before[1:]):
            graph.tie(before[0], after[0], "repeat", inputs[0])
        else:
            graph.unite(before[0], after[0])
        if len(after) == 1 < len(before):
            graph.merges.append(tuple(before))
        graph.use("fold", before[1:], inputs[0])
        graph.use("fold", after[1:], out)
    return [out]


def _reshape_groups(
    graph: Graph, before: tuple[Node, ...], after: tuple[Node, ...]
) -> list[tuple[list[Node], list[Node]]]:
    """Return the smallest runs of dims with equal products, dims of size 1 left out."""
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


@rule(
    *("reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor".split()),
    *("argmax", "argmin"),
)
def _reduce(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Reduce some dims by a sum or the like."""
    axes = eqn.params["axes"]
    dims = [n for i, n in enumerate(inputs[0].dims) if i not in axes]
    out = graph.value(eqn.outvars[0], dims)
    graph.use("reduce", [inputs[0].dims[i] for i in axes], out)
    return [out]


@rule("reduce")
def _reduce_by(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Reduce by a function of the user's."""
    axes, count = eqn.params["dimensions"], len(eqn.outvars)
    for other in inputs[1:count]:
        graph.unite_all(inputs[0].dims, other.dims)
    dims = [n for i, n in enumerate(inputs[0].dims) if i not in axes]
    outputs = [graph.value(var, dims) for var in eqn.outvars]
    for out in outputs:
        graph.use("reduce", [inputs[0].dims[i] for i in axes], out)
    return outputs


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Pass all dims through; the one that is summed along needs its elements in order."""
    graph.use("cut", [inputs[0].dims[eqn.params["axis"]]], inputs[0])
    return [graph.value(eqn.outvars[0], inputs[0].dims)]


@rule("bitcast_convert_type")
def _bitcast(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Read the same bits; a wider or narrower type adds or drops a last dim."""
    shape = shape_of(eqn.outvars[0])
    dims = list(inputs[0].dims[: len(shape)])
    dims += [graph.node(size) for size in shape[len(dims) :]]
    return [graph.value(eqn.outvars[0], dims)]


@rule(
    *("iota", "empty", "empty2", "random_seed", "random_wrap", "random_unwrap", "random_bits"),
    *("random_fold_in", "random_split", "random_clone", "iota_2x32_shape", "rng_uniform"),
    *("rng_bit_generator", "platform_index", "create_token", "after_all"),
    *("debug_callback", "debug_print"),
)
def _source(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Return values that come from nowhere, or from a random key: new dims."""
    return [graph.value(var) for var in eqn.outvars]
