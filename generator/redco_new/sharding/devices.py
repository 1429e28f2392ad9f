"""Rules of programs that name devices: shard_map and the collectives inside it."""

from __future__ import annotations

from typing import Any

from redco_new.sharding.dims import Graph, Value, rule
from redco_new.sharding.slices import resized
from redco_new.sharding.walk import run


@rule("shard_map")
def shard_map(graph: Graph, eqn: Any, inputs: list[Value]) -> list[Value]:
    """The body, on one device's part. A dim that the user leaves whole is gathered if split."""
    body = eqn.params["jaxpr"]
    local = []
    for value, var, spec in zip(inputs, body.invars, eqn.params["in_specs"], strict=True):
        named = [axes is not None for axes in (*spec, *[None] * (len(value.dims) - len(spec)))]
        graph.use(
            "cut", [n for n, is_named in zip(value.dims, named, strict=True) if not is_named], value
        )
        local.append(graph.value(var.aval, part=value))
        graph.unite_all(value.dims, local[-1].dims)
    outputs = run(graph, body, (), local)
    made = [graph.value(var.aval) for var in eqn.outvars]
    for value, inner in zip(made, outputs, strict=True):
        graph.unite_all(value.dims, inner.dims)
    return made


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
