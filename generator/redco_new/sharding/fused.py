"""Fused parameters, such as q, k and v in one kernel: found, and stored with their parts apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any
import jax
from redco_new.sharding.classes import Classes
from redco_new.sharding.parts import Parts
from redco_new.sharding.parts import evaluate
from redco_new.sharding.parts import whole

Forward = Callable[[Any, Any], Any]


Places = dict[int, tuple[int, int]]


def find_fused(classes: Classes) -> Places:
    """index of a parameter -> (dim, number of parts), for each that a program takes apart evenly."""
    graph, parts, found = classes.graph, defaultdict(set), {}
    for node, size in graph.pieces:
        parts[graph.find(node)].add(size)
    for index, dims in enumerate(classes.parameter_dims):
        for dim, node in enumerate(dims):
            if classes.labels[node] != "fused" or len(parts[node]) != 1:
                continue
            (part,), size = parts[node], graph.sizes[graph.values[index].dims[dim]]
            if size > part and size % part == 0:
                found[index] = (dim, size // part)
    return found


def take_apart(forward: Forward, params: Any, places: Places) -> tuple[Forward, Any]:
    """(a function of the parameters taken apart, these), given a function of `params` and a batch.

    places: as find_fused gives them. The dim of k * F elements of such a parameter becomes two, k
    and F. The function computes what `forward` does; its gradients have the shapes of the new
    parameters.
    """
    leaves, treedef = jax.tree.flatten(params)
    own = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]

    def apart(params: Any, batch: Any) -> Any:
        given = jax.tree.leaves(params)
        typed = [jax.ShapeDtypeStruct(o.shape, g.dtype) for o, g in zip(own, given, strict=True)]
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch)
        traced, outputs = jax.make_jaxpr(forward, return_shape=True)(
            treedef.unflatten(typed), shapes
        )
        inputs = [Parts(places[i][0], x) if i in places else x for i, x in enumerate(given)]
        made = evaluate(traced.jaxpr, traced.consts, [*inputs, *jax.tree.leaves(batch)])
        return jax.tree.unflatten(jax.tree.structure(outputs), map(whole, made))

    shapes = [
        apart_shape(x.shape, *places[i]) if i in places else x.shape for i, x in enumerate(own)
    ]
    stored = [
        jax.ShapeDtypeStruct(*pair) for pair in zip(shapes, (x.dtype for x in own), strict=True)
    ]
    return apart, treedef.unflatten(stored)


def apart_shape(shape: tuple[int, ...], dim: int, count: int) -> tuple[int, ...]:
    """(D, 3 * F) -> (D, 3, F)."""
    return (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
