"""Rules of the primitives that take arrays apart and join them: slices, gathers, scatters, sorts."""

from __future__ import annotations

from typing import Any
from redco_new.sharding.graph import Graph
from redco_new.sharding.graph import Node
from redco_new.sharding.graph import Value
from redco_new.sharding.walk import rule


def resized(graph: Graph, value: Value, shape: tuple[int, ...]) -> list[Node]:
    """Dims of `value` where the size stays; new ones, the old cut, where it changes."""
    dims = []
    for node, size in zip(value.dims, shape, strict=True):
        kept = graph.sizes[node] == size
        if not kept:
            graph.use("cut", [node], value)
        dims.append(node if kept else derived(graph, node, size))
    return dims


def derived(graph: Graph, node: Node, size: int) -> Node:
    """A new dim of `size` elements that come from those of another one."""
    made = graph.node(size)
    graph.origins.append((made, node))
    return made


def piece(graph: Graph, aval: Any, value: Value) -> Value:
    """A part of `value`: where the size changes, the part is a dim of its own, and it moves."""
    kept = [graph.sizes[n] == size for n, size in zip(value.dims, aval.shape, strict=True)]
    dims = [
        node if same else derived(graph, node, size)
        for node, same, size in zip(value.dims, kept, aval.shape, strict=True)
    ]
    out = graph.value(aval, dims, part=value)
    taken = [n for n, same in zip(value.dims, kept, strict=True) if not same]
    graph.use("part", taken, out)
    graph.pieces += [(n, graph.sizes[m]) for n, m in zip(value.dims, dims, strict=True) if n != m]
    return out


@rule("slice")
def cut(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """A run of elements is a part; every k-th element of all is the major factor of the dim."""
    shape, strides = inputs[0].dims, eqn.params["strides"] or ()
    whole = list(shape)
    for i, stride in enumerate(strides):
        count, start = eqn.outvars[0].aval.shape[i], eqn.params["start_indices"][i]
        if stride > 1 and start < stride and count * stride == graph.sizes[shape[i]]:
            whole[i] = graph.node(count)
            graph.unite(shape[i], whole[i])
    strided = Value(tuple(whole), inputs[0].bytes, 0, inputs[0].data, inputs[0].parameter)
    return [piece(graph, eqn.outvars[0].aval, strided)]


@rule("dynamic_slice")
def dynamic_slice(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    return [piece(graph, eqn.outvars[0].aval, inputs[0])]


@rule("pad")
def pad(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    aval = eqn.outvars[0].aval
    return [graph.value(aval, resized(graph, inputs[0], aval.shape))]


@rule("split")
def split(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    return [piece(graph, var.aval, inputs[0]) for var in eqn.outvars]


@rule("dynamic_update_slice")
def dynamic_update_slice(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    operand, update = inputs[:2]
    for node, other in zip(operand.dims, update.dims, strict=True):
        if graph.sizes[node] == graph.sizes[other]:
            graph.unite(node, other)
        else:
            graph.use("cut", [node], operand)
    return [graph.value(eqn.outvars[0].aval, operand.dims)]


@rule("concatenate")
def concatenate(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The parts of a dim that is joined come together on each device, and all that it is joined with."""
    axis, aval = eqn.params["dimension"], eqn.outvars[0].aval
    dims = [graph.node(n) if i == axis else inputs[0].dims[i] for i, n in enumerate(aval.shape)]
    out = graph.value(aval, dims)
    for value in inputs:
        graph.use("cut", [value.dims[axis]], out)
        graph.origins.append((dims[axis], value.dims[axis]))
        for i, (node, other) in enumerate(zip(dims, value.dims, strict=True)):
            if i != axis:
                graph.unite(node, other)
    return [out]


@rule("rev")
def rev(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    graph.use("cut", [inputs[0].dims[i] for i in eqn.params["dimensions"]], inputs[0])
    return [graph.value(eqn.outvars[0].aval, inputs[0].dims)]


@rule("gather")
def gather(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """Offset dims pass through, the indexed dims are looked up, the rest comes from the indices."""
    operand, indices = inputs
    numbers, slice_sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    aval = eqn.outvars[0].aval
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windows = iter(i for i in range(len(operand.dims)) if i not in dropped)
    batch = iter(indices.dims[:-1])
    dims = []
    for i, size in enumerate(aval.shape):
        if i not in numbers.offset_dims:
            dims.append(next(batch))
            continue
        node = operand.dims[next(windows)]
        dims.append(node if graph.sizes[node] == size else graph.node(size))
    for a, b in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        graph.unite(operand.dims[a], indices.dims[b])
    out = graph.value(aval, dims)
    for i in numbers.start_index_map:
        one = slice_sizes[i] == 1
        graph.use("index" if one else "cut", [operand.dims[i]], out if one else operand)
    return [out]


@rule("scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub")
def scatter(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The operand, with the updates' windows written where the indices say."""
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
    return [graph.value(eqn.outvars[0].aval, operand.dims)]


@rule("stack")
def stack(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    for other in inputs[1:]:
        graph.unite_all(inputs[0].dims, other.dims)
    dims = list(inputs[0].dims)
    dims.insert(eqn.params["axis"], graph.node(len(inputs)))
    return [graph.value(eqn.outvars[0].aval, dims)]


@rule("unstack")
def unstack(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    dims = list(inputs[0].dims)
    graph.use("part", [dims.pop(eqn.params["axis"])], inputs[0])
    return [graph.value(var.aval, dims, part=inputs[0]) for var in eqn.outvars]


@rule("sort")
def sort(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    for other in inputs[1:]:
        graph.unite_all(inputs[0].dims, other.dims)
    for value in inputs:
        graph.use("cut", [value.dims[eqn.params["dimension"]]], value)
    return [graph.value(var.aval, inputs[0].dims) for var in eqn.outvars]


@rule("top_k", "approx_top_k", "tile")
def resize(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """One dim changes its size: the largest of it stay, or it is repeated."""
    dims = resized(graph, inputs[0], eqn.outvars[0].aval.shape)
    return [graph.value(var.aval, dims) for var in eqn.outvars]


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


@rule(
    *("psum", "psum_invariant", "pmax", "pmin", "ppermute", "pvary", "pbroadcast"),
    *("reduced_vary_cast_p", "vary_unreduced_cast_p", "preduced"),
)
def everywhere(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The same dims, on every device of an axis that the user names."""
    return [graph.value(v.aval, x.dims, part=x) for v, x in zip(eqn.outvars, inputs, strict=True)]


@rule("all_gather", "all_gather_invariant", "all_gather_reduced", "reduce_scatter")
def along(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """One dim grows or shrinks by the size of an axis, or comes or goes (`tiled` is false)."""
    aval, value = eqn.outvars[0].aval, inputs[0]
    if len(aval.shape) == len(value.dims):
        return [graph.value(aval, resized(graph, value, aval.shape))]
    axis = eqn.params.get("all_gather_dimension", eqn.params.get("scatter_dimension"))
    dims = list(value.dims)
    if len(aval.shape) > len(dims):
        dims.insert(axis, graph.node(aval.shape[axis]))
    else:
        graph.use("cut", [dims.pop(axis)], value)
    return [graph.value(aval, dims)]


@rule("all_to_all")
def all_to_all(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """One dim is dealt out, another collected."""
    graph.use("cut", inputs[0].dims, inputs[0])
    return [graph.value(eqn.outvars[0].aval)]


@rule("axis_index")
def axis_index(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    return [graph.value(eqn.outvars[0].aval)]
