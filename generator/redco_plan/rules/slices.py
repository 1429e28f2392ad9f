"""Rules of the primitives that take arrays apart, join them, or look along their dims.

Slices, gathers, scatters, sorts, windows, Fourier transforms, and collectives of the user's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jax.extend.core import JaxprEqn

from redco_plan.graph import Atom, Graph, Node, Value, shape_of
from redco_plan.walk import rule


def _resized(graph: Graph, value: Value, shape: Sequence[int]) -> list[Node]:
    """Return dims of `value` where the size stays; new ones, the old cut, where it changes."""
    dims = []
    for node, size in zip(value.dims, shape, strict=True):
        same = graph.sizes[node] == size
        if not same:
            graph.use("cut", [node], value)
        dims.append(node if same else graph.node_from(node, size))
    return dims


def _piece(graph: Graph, atom: Atom, value: Value, starts: Sequence[int] = ()) -> Value:
    """Return a part of `value`: where the size changes, the part is a new dim, and it moves.

    starts: the first element of each dim, if they are known.
    """
    pairs = list(zip(value.dims, shape_of(atom), strict=True))
    dims = [n if graph.sizes[n] == size else graph.node_from(n, size) for n, size in pairs]
    out = graph.value(atom, dims, part=value)
    graph.use("part", [n for n, size in pairs if graph.sizes[n] != size], out)
    runs = zip(value.dims, starts or (), dims, strict=bool(starts))
    graph.runs += [(whole, start, part) for whole, start, part in runs if whole != part]
    return out


@rule("slice")
def _cut(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Cut out a run of elements; every k-th element of all is the major factor of the dim."""
    shape, strides = inputs[0].dims, eqn.params["strides"] or ()
    whole = list(shape)
    for i, stride in enumerate(strides):
        count, start = shape_of(eqn.outvars[0])[i], eqn.params["start_indices"][i]
        if stride > 1 and start < stride and count * stride == graph.sizes[shape[i]]:
            whole[i] = graph.node(count)
            graph.unite(shape[i], whole[i])
    strided = replace(inputs[0], dims=tuple(whole), key=0)
    starts = () if any(n > 1 for n in strides) else eqn.params["start_indices"]
    return [_piece(graph, eqn.outvars[0], strided, starts)]


@rule("dynamic_slice")
def _dynamic_slice(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Cut out a run of elements, wherever it begins."""
    return [_piece(graph, eqn.outvars[0], inputs[0])]


@rule("pad")
def _pad(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Add elements, or with a negative padding take some away."""
    out = eqn.outvars[0]
    return [graph.value(out, _resized(graph, inputs[0], shape_of(out)))]


@rule("split")
def _split(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Cut a dim into runs of elements."""
    axis, starts = eqn.params["axis"], [0] * len(inputs[0].dims)
    outputs = []
    for var in eqn.outvars:
        outputs.append(_piece(graph, var, inputs[0], tuple(starts)))
        starts[axis] += shape_of(var)[axis]
    return outputs


@rule("dynamic_update_slice")
def _dynamic_update_slice(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Write a smaller array into a larger one."""
    operand, update = inputs[:2]
    for node, other in zip(operand.dims, update.dims, strict=True):
        if graph.sizes[node] == graph.sizes[other]:
            graph.unite(node, other)
        else:
            graph.use("cut", [node], operand)
    return [graph.value(eqn.outvars[0], operand.dims)]


@rule("concatenate")
def _concatenate(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Bring all parts of the dim that is joined together, on every device."""
    axis, shape = eqn.params["dimension"], shape_of(eqn.outvars[0])
    dims = [graph.node(n) if i == axis else inputs[0].dims[i] for i, n in enumerate(shape)]
    out, start = graph.value(eqn.outvars[0], dims), 0
    for value in inputs:
        graph.use("cut", [value.dims[axis]], out)
        graph.runs.append((dims[axis], start, value.dims[axis]))
        start += graph.sizes[value.dims[axis]]
        graph.origins.append((dims[axis], value.dims[axis]))
        for i, (node, other) in enumerate(zip(dims, value.dims, strict=True)):
            if i != axis:
                graph.unite(node, other)
    return [out]


@rule("rev")
def _rev(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Turn the order of elements around."""
    graph.use("cut", [inputs[0].dims[i] for i in eqn.params["dimensions"]], inputs[0])
    return [graph.value(eqn.outvars[0], inputs[0].dims)]


@rule("gather")
def _gather(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Pass offset dims through, look the indexed dims up; the rest comes from the indices."""
    operand, indices = inputs
    numbers, slice_sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = iter(i for i in range(len(operand.dims)) if i not in dropped)
    batch = iter(indices.dims[:-1])
    dims = []
    for i, size in enumerate(shape_of(eqn.outvars[0])):
        if i not in numbers.offset_dims:
            dims.append(next(batch))
            continue
        node = operand.dims[next(windows)]
        dims.append(node if graph.sizes[node] == size else graph.node(size))
    for a, b in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        graph.unite(operand.dims[a], indices.dims[b])
    out = graph.value(eqn.outvars[0], dims)
    for i in numbers.start_index_map:
        one = slice_sizes[i] == 1
        graph.use("index" if one else "cut", [operand.dims[i]], out if one else operand)
    return [out]


@rule("scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub")
def _scatter(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Write the updates' windows into the operand, where the indices say."""
    operand, indices, updates = inputs
    numbers = eqn.params["dimension_numbers"]
    dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windows = [n for i, n in enumerate(operand.dims) if i not in dropped]
    for i, node in zip(numbers.update_window_dims, windows, strict=True):
        if graph.sizes[node] == graph.sizes[updates.dims[i]]:
            graph.unite(node, updates.dims[i])
    batch = [n for i, n in enumerate(updates.dims) if i not in numbers.update_window_dims]
    graph.unite_all(batch, indices.dims[:-1])
    pairs = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    for a, b in pairs:
        graph.unite(operand.dims[a], indices.dims[b])
    written = [operand.dims[i] for i in numbers.scatter_dims_to_operand_dims]
    graph.use("index", written, updates)
    return [graph.value(eqn.outvars[0], operand.dims)]


@rule("stack")
def _stack(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Join alike arrays along a new dim."""
    for other in inputs[1:]:
        graph.unite_all(inputs[0].dims, other.dims)
    dims = list(inputs[0].dims)
    dims.insert(eqn.params["axis"], graph.node(len(inputs)))
    return [graph.value(eqn.outvars[0], dims)]


@rule("unstack")
def _unstack(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Take an array apart along a dim."""
    dims = list(inputs[0].dims)
    whole = dims.pop(eqn.params["axis"])
    graph.use("part", [whole], inputs[0])
    graph.runs += [(whole, i, graph.node(1)) for i in range(len(eqn.outvars))]
    return [graph.value(var, dims, part=inputs[0]) for var in eqn.outvars]


@rule("sort")
def _sort(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Sort all inputs alike, along a dim."""
    for other in inputs[1:]:
        graph.unite_all(inputs[0].dims, other.dims)
    for value in inputs:
        graph.use("cut", [value.dims[eqn.params["dimension"]]], value)
    return [graph.value(var, inputs[0].dims) for var in eqn.outvars]


@rule("top_k", "approx_top_k", "tile")
def _resize(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Change the size of a dim: its largest elements stay, or it is repeated."""
    dims = _resized(graph, inputs[0], shape_of(eqn.outvars[0]))
    return [graph.value(var, dims) for var in eqn.outvars]


@rule(
    *("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"),
    *("select_and_gather_add", "select_and_scatter_add", "select_and_scatter"),
)
def _pool(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Pass dims with a window of 1 through; the others are cut, whatever size they get."""
    shape = eqn.params["window_dimensions"]
    shaped = [value for value in inputs if value.dims]
    source = next(v for v in shaped if len(v.dims) == len(shape))
    outputs = []
    for var in eqn.outvars:
        dims = []
        for i, size in enumerate(shape_of(var)):
            same = [v.dims[i] for v in shaped if graph.sizes[v.dims[i]] == size]
            dims.append(same[0] if same else graph.node_from(source.dims[i], size))
            for node in same:
                graph.unite(dims[i], node)
        outputs.append(graph.value(var, dims))
    graph.use("cut", [n for n, width in zip(source.dims, shape, strict=True) if width > 1], source)
    return outputs


@rule("fft")
def _fft(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Transform the last dims, which need every element."""
    count, out = len(eqn.params["fft_lengths"]), eqn.outvars[0]
    graph.use("cut", inputs[0].dims[-count:], inputs[0])
    dims = [
        node if graph.sizes[node] == size else graph.node(size)
        for node, size in zip(inputs[0].dims, shape_of(out), strict=True)
    ]
    return [graph.value(out, dims)]


@rule(
    *("psum", "psum_invariant", "pmax", "pmin", "ppermute", "pvary", "pbroadcast"),
    *("reduced_vary_cast_p", "vary_unreduced_cast_p", "preduced"),
)
def _everywhere(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Pass all dims through, on every device of an axis that the user names."""
    return [graph.value(v, x.dims, part=x) for v, x in zip(eqn.outvars, inputs, strict=True)]


@rule("all_gather", "all_gather_invariant", "all_gather_reduced", "reduce_scatter")
def _along(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Grow or shrink a dim by the size of an axis, or add or drop it (`tiled` is false)."""
    out, value = eqn.outvars[0], inputs[0]
    shape = shape_of(out)
    if len(shape) == len(value.dims):
        return [graph.value(out, _resized(graph, value, shape))]
    param = "all_gather_dimension" if "all_gather_dimension" in eqn.params else "scatter_dimension"
    axis = eqn.params[param]
    dims = list(value.dims)
    if len(shape) > len(dims):
        dims.insert(axis, graph.node(shape[axis]))
    else:
        graph.use("cut", [dims.pop(axis)], value)
    return [graph.value(out, dims)]


@rule("all_to_all")
def _all_to_all(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Deal out a dim and collect another."""
    graph.use("cut", inputs[0].dims, inputs[0])
    return [graph.value(eqn.outvars[0])]


@rule("axis_index")
def _axis_index(graph: Graph, eqn: JaxprEqn, inputs: list[Value]) -> list[Value]:
    """Return the place of a device on an axis: a scalar."""
    return [graph.value(eqn.outvars[0])]
