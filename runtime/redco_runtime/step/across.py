"""Gradients that cross a slow network in few bytes: rounded for the way, and added up in float32."""

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ..layout.mesh import axes_of, free_axes, on_parts


def add_across(x: jax.Array, spec: P) -> jax.Array:
    """Return the sum over the first dim, of which each device of its axes has one part, in the dtype of `x`.

    spec: of `x`, all axes that split it. Each device adds up in float32 the part of the sum that is its own, which the others
    send it in the dtype of `x`, and sends them that: as many bytes as an all-reduce, which adds up in the dtype that it sends.
    """
    over = axes_of(spec[0])
    axes = {*over, *(axis for entry in spec for axis in axes_of(entry))}
    parts, dtype = math.prod(free_axes()[axis] for axis in over), x.dtype
    bits = jnp.dtype(f"uint{8 * dtype.itemsize}")  # or a compiler may send them as float32

    def own(x: jax.Array) -> jax.Array:
        ends = jnp.pad(x.reshape(-1), (0, -x.size % parts)).reshape(parts, -1).view(bits)
        mine = jax.lax.all_to_all(ends, over, 0, 0, tiled=True).view(dtype)
        total = mine.astype(jnp.float32).sum(axis=0).astype(dtype).view(bits)
        whole = jax.lax.all_gather(total, over, tiled=True).view(dtype)
        return whole[: x.size].reshape(x.shape[1:])

    return on_parts(own, axes, in_specs=spec, out_specs=P(*spec[1:]))(x)
