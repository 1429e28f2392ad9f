"""Attention where devices split positions: inside it each has all of them, of heads of its own.

Queries, keys and values change from a part of the positions to a part of the heads, and what they see
changes back: all-to-alls (DeepSpeed Ulysses, Jacobs et al. 2023). They are written out, since a
partitioner that is told both layouts moves them into the products before and after, and gathers there.
Shape letters: as in attention.py.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ..base.messages import UserError, feature
from ..layout.activations import spec_of
from ..layout.mesh import axes_of, free_axes, on_parts
from .kernels import SAVED_AS


def by_heads(
    attend: Callable[..., jax.Array], layout: str, q_BSNH, k_BTKH, v_BTKH, **options: Any
) -> jax.Array:
    """Return attend(q, k, v, layout=..., **options) of arrays that lie by position, as the result does.

    Raises UserError where the devices that split heads and positions do not divide the heads.
    """
    if axes_of(spec_of(q_BSNH.shape, SAVED_AS)[1]):  # its result lies by position
        ring = feature("ring", "nn.ring", flag="--context-attention ring")
        return ring.in_ring(attend, layout, q_BSNH, k_BTKH, v_BTKH, **options)
    rows, positions, heads = map(axes_of, spec_of(q_BSNH.shape, layout)[:3])
    move = functools.partial(_move, rows=rows, positions=positions, heads=heads)
    own = (move(x) for x in share_out(q_BSNH, k_BTKH, v_BTKH, (*heads, *positions)))
    return move(attend(*own, layout=SAVED_AS, **options), back=True)


def share_out(q_BSNH, k_BTKH, v_BTKH, axes: tuple[str, ...]) -> tuple[jax.Array, ...]:
    """Return them with heads of keys and values repeated until the devices of `axes` divide these too."""
    sizes, (N, K) = free_axes(), (q_BSNH.shape[2], k_BTKH.shape[2])
    parts = math.prod(sizes[axis] for axis in axes)
    if N % parts:
        have = " x ".join(f"{axis} {sizes[axis]}" for axis in axes)
        raise UserError(
            f"mesh: {have} devices do not divide the {N} heads of attention, of which each has its own: choose a smaller "
            "context with --mesh"
        )
    copies = math.lcm(K, parts) // K
    return q_BSNH, *(jnp.repeat(x, copies, axis=2) for x in (k_BTKH, v_BTKH))


def _move(x_BSNH: jax.Array, rows, positions, heads, back: bool = False) -> jax.Array:
    """Return an array that lies by positions as one that lies by heads; or `back`."""
    sizes = free_axes()
    outside, inside = P(rows, positions, heads, None), P(rows, None, (*heads, *positions), None)
    if x_BSNH.shape[1] % math.prod(sizes[axis] for axis in positions):  # such as keys of images
        return jax.lax.with_sharding_constraint(x_BSNH, inside)
    before, after = (inside, outside) if back else (outside, inside)
    apart, together = (1, 2) if back else (2, 1)
    exchange = functools.partial(
        jax.lax.all_to_all, axis_name=positions, split_axis=apart, concat_axis=together, tiled=True
    )
    axes = {*rows, *positions, *heads}
    return on_parts(exchange, axes, in_specs=before, out_specs=after)(x_BSNH)
