"""Fused parameters, such as q, k and v in one kernel: which they are, and the model without them."""

from __future__ import annotations

from collections import defaultdict

import jax

from redco_new.sharding.classes import Classes
from redco_new.sharding.parts import Parts, evaluate, whole_array
from redco_new.sharding.trace import Forward, Tree

FusedDims = dict[int, tuple[int, int]]  # index of a parameter -> (dim, number of parts)


def find_fused(classes: Classes) -> FusedDims:
    """Return the dim and the number of parts of each parameter that is taken apart evenly."""
    graph, fused = classes.graph, {}
    piece_sizes: dict[int, set[int]] = defaultdict(set)
    for node, size in graph.pieces:
        piece_sizes[graph.find(node)].add(size)
    for index, dims in enumerate(classes.parameter_dims):
        for dim, node in enumerate(dims):
            if classes.labels[node] != "fused" or len(piece_sizes[node]) != 1:
                continue
            (piece,), size = piece_sizes[node], graph.sizes[graph.values[index].dims[dim]]
            if size > piece and size % piece == 0:
                fused[index] = (dim, size // piece)
    return fused


def take_apart(forward: Forward, params: Tree, fused: FusedDims) -> tuple[Forward, Tree]:
    """Return a function of the parameters taken apart, and these, as ShapeDtypeStructs.

    forward: a function of `params` and a batch.
    fused: as find_fused returns it. The dim of k * F elements of such a parameter becomes two, k
        and F.

    The function computes what `forward` does; its gradients have the shapes of the new parameters.
    """
    leaves, treedef = jax.tree.flatten(params)
    own = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]

    def forward_apart(params: Tree, batch: Tree) -> Tree:
        arrays = jax.tree.leaves(params)
        typed = [jax.ShapeDtypeStruct(o.shape, a.dtype) for o, a in zip(own, arrays, strict=True)]
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch)
        jaxpr, outputs = jax.make_jaxpr(forward, return_shape=True)(
            jax.tree.unflatten(treedef, typed), shapes
        )
        inputs = [Parts(fused[i][0], x) if i in fused else x for i, x in enumerate(arrays)]
        results = evaluate(jaxpr.jaxpr, jaxpr.consts, [*inputs, *jax.tree.leaves(batch)])
        return jax.tree.unflatten(jax.tree.structure(outputs), map(whole_array, results))

    apart = [
        jax.ShapeDtypeStruct(_shape_apart(x.shape, *fused[i]) if i in fused else x.shape, x.dtype)
        for i, x in enumerate(own)
    ]
    return forward_apart, jax.tree.unflatten(treedef, apart)


def _shape_apart(shape: tuple[int, ...], dim: int, count: int) -> tuple[int, ...]:
    """Return a shape with a dim in `count` parts: (D, 3 * F) -> (D, 3, F)."""
    return (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
