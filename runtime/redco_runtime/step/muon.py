"""Muon: the momentum of a matrix, made nearly orthogonal. Each device turns whole matrices.

Jordan et al. 2024, https://kellerjordan.github.io/posts/muon.
Dims: K matrices, R rows, C columns, as many as rows or more.
"""

import math
from collections import defaultdict
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec as P

from ..base.state import PyTree, flatten, rebuild
from ..layout.mesh import axes_of

MOMENTUM = 0.95  # theirs, with Nesterov's step
ITERATIONS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # theirs: the steepest at 0 whose values stay near 1
# Root mean square of an update: about that of AdamW, whose learning rate and weight decay then serve
# both (Liu et al. 2025, arXiv 2502.16982).
UPDATE_RMS = 0.2


class Kind(NamedTuple):
    """What matrices have in common that are turned together."""

    rows: int
    columns: int
    row_axes: tuple[str, ...]  # mesh axes that split the rows, whatever their sizes
    column_axes: tuple[str, ...]  # mesh axes that split the columns
    stack_axes: tuple[str, ...]  # mesh axes that split a dim before these two: experts


def scale_by_muon() -> optax.GradientTransformationExtraArgs:
    """Return Muon for parameters whose last two dims are a matrix; the dims before stack them.

    Its update takes `specs`: a PartitionSpec for each parameter, as its gradient lies. Matrices of one
    kind move together, so that each device has whole ones, and back: the iteration sends nothing.
    """
    return optax.chain(optax.trace(MOMENTUM, nesterov=True), _orthogonalize())


def _orthogonalize() -> optax.GradientTransformationExtraArgs:
    def update(
        updates: PyTree, state: PyTree, params: PyTree = None, *, specs: PyTree, **_: Any
    ) -> tuple[PyTree, PyTree]:
        leaves, places = flatten(updates), flatten(specs)
        kinds: defaultdict[Kind, dict[str, bool]] = defaultdict(dict)
        for path, leaf in leaves.items():
            kind, flipped = kind_of(leaf.shape, places[path])
            kinds[kind][path] = flipped
        for kind, flips in kinds.items():
            parts = {path: leaves[path] for path in flips}
            leaves |= _turn(kind, parts, flips, {path: places[path] for path in flips})
        return rebuild(updates, leaves), state

    return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)


def kind_of(shape: tuple[int, ...], spec: P) -> tuple[Kind, bool]:
    """Return the kind of the matrices of a parameter, and whether they are transposed in it.

    They are if they have more rows than columns. Of square ones, those that a layer reads with are
    the transposes of those that it writes with, by the axes that split them.
    """
    *stack, above, across = map(axes_of, spec)
    stack_axes = tuple(axis for axes in stack for axis in axes)
    rows, columns = shape[-2:]
    as_it_is = Kind(rows, columns, above, across, stack_axes)
    transposed = Kind(columns, rows, across, above, stack_axes)
    return min((as_it_is, False), (transposed, True))


def _turn(
    kind: Kind, leaves: dict[str, jax.Array], flips: dict[str, bool], specs: dict[str, P]
) -> dict[str, jax.Array]:
    """Return the updates that matrices of one kind make: path -> as its parameter."""

    def local(parts: dict[str, jax.Array]) -> dict[str, jax.Array]:
        stacks = [x.reshape(-1, *x.shape[-2:]).astype(jnp.bfloat16) for x in parts.values()]
        stacks = [x.mT if flips[path] else x for path, x in zip(parts, stacks, strict=True)]
        scale = UPDATE_RMS * math.sqrt(kind.columns)
        x_KRC = scale * spread(jnp.concatenate(stacks), kind)
        pieces = jnp.split(x_KRC, list(accumulate(map(len, stacks)))[:-1])
        return {
            path: (x.mT if flips[path] else x).reshape(part.shape).astype(part.dtype)
            for (path, part), x in zip(parts.items(), pieces, strict=True)
        }

    return jax.shard_map(local, in_specs=(specs,), out_specs=specs, check_vma=False)(leaves)


def spread(x_KRC: jax.Array, kind: Kind) -> jax.Array:
    """Return `orthogonal` of the parts that a device has of matrices, each turned by one device."""
    sizes = jax.sharding.get_abstract_mesh().shape
    split = (*kind.row_axes, *kind.column_axes, *kind.stack_axes)
    copies = tuple(axis for axis, size in sizes.items() if size > 1 and axis not in split)
    moves = [(kind.row_axes, 1), (kind.column_axes, 2)]
    moves = [(axes, dim) for axes, dim in moves if math.prod(sizes[axis] for axis in axes) > 1]
    count = len(x_KRC)
    devices = math.prod(sizes[axis] for axis in (*kind.row_axes, *kind.column_axes, *copies))
    x_KRC = jnp.pad(x_KRC, [(0, -count % devices), (0, 0), (0, 0)])
    for axes, dim in moves:
        x_KRC = jax.lax.all_to_all(x_KRC, axes, 0, dim, tiled=True)
    if copies:
        shares = math.prod(sizes[axis] for axis in copies)
        x_KRC = x_KRC.reshape(shares, -1, *x_KRC.shape[1:])[jax.lax.axis_index(copies)]
    x_KRC = orthogonal(x_KRC)
    if copies:
        x_KRC = jax.lax.all_gather(x_KRC, copies, tiled=True)
    for axes, dim in reversed(moves):
        x_KRC = jax.lax.all_to_all(x_KRC, axes, dim, 0, tiled=True)
    return x_KRC[:count]


def orthogonal(x_KRC: jax.Array) -> jax.Array:
    """Return matrices of the singular vectors of these, with all singular values near 1; no more rows than columns."""
    norm_K11 = jnp.linalg.norm(x_KRC.astype(jnp.float32), axis=(1, 2), keepdims=True)
    a, b, c = QUINTIC

    def improve(_: int, x_KRC: jax.Array) -> jax.Array:
        gram_KRR = x_KRC @ x_KRC.mT
        return a * x_KRC + (b * gram_KRR + c * gram_KRR @ gram_KRR) @ x_KRC

    x_KRC = (x_KRC / (norm_K11 + 1e-7)).astype(x_KRC.dtype)  # theirs: no division by 0
    return jax.lax.fori_loop(0, ITERATIONS, improve, x_KRC)
