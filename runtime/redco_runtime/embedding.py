"""Rows of a table, and the gradient of the table, for which devices send as little as they can.

Shape letters: B batch, S sequence, D embed, V vocab.
"""

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from redco_runtime.losses import add_up
from redco_runtime.mesh import free_axes


def look_up(table_VD: jax.Array, ids_BS: jax.Array, dtype: str | None = None) -> jax.Array:
    """Return rows_BSD of a table, in `dtype`; None for that of the table.

    In it devices send rows, and their gradients, which add up in float32.
    """
    table, stored = jax.ShapeDtypeStruct(table_VD.shape, jnp.float32), table_VD.dtype

    def rows(table_VD: jax.Array, ids_BS: jax.Array) -> jax.Array:
        if _parts() > 1:  # a sum over devices, which each have a part of the rows of the table
            return table_VD.astype(dtype or stored)[ids_BS]
        return table_VD[ids_BS].astype(dtype or stored)

    def forward(table_VD: jax.Array, ids_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rows(table_VD, ids_BS), ids_BS

    def pull(ids_BS: jax.Array, grads_BSD: jax.Array) -> tuple[jax.Array, None]:
        return _gradient(table, ids_BS, grads_BSD).astype(stored), None

    run = jax.custom_vjp(rows)
    run.defvjp(forward, pull)
    return run(table_VD, ids_BS)


def _gradient(table: jax.ShapeDtypeStruct, ids_BS: jax.Array, grads_BSD: jax.Array) -> jax.Array:
    """Return the gradients of rows, added up in the shape and the dtype of `table`.

    Each device adds up those of all rows, where they are fewer than what an all-reduce would send of
    the sums; otherwise those of its own, and the sums are reduced in the dtype of the gradients.
    """

    def add(ids_BS: jax.Array, grads_BSD: jax.Array) -> jax.Array:
        pull = jax.linear_transpose(lambda table_VD: table_VD[ids_BS], table)
        return pull(grads_BSD.astype(table.dtype))[0]

    # An all-reduce sends twice what a device has of the table (Patarasuk and Yuan 2009).
    if free_axes() and ids_BS.size * _parts() <= 2 * table.shape[0]:
        return add(_gather(ids_BS), _gather(grads_BSD))
    axes = _row_axes()
    parts = math.prod(free_axes()[axis] for axis in axes)
    if parts == 1 or len(ids_BS) % parts:
        return add(ids_BS, grads_BSD)

    def own(x: jax.Array) -> jax.Array:
        x = x.reshape(parts, -1, *x.shape[1:])
        return jax.lax.with_sharding_constraint(x, P(axes, *(P.UNCONSTRAINED,) * (x.ndim - 1)))

    sums = jax.vmap(add)(own(ids_BS), own(grads_BSD)).astype(grads_BSD.dtype)
    return add_up(sums, 1).astype(table.dtype)


def _gather(x: jax.Array) -> jax.Array:
    """Return an array whose rows of the batch all devices have; how its other dims lie stays open."""
    return jax.lax.with_sharding_constraint(x, P(None, *(P.UNCONSTRAINED,) * (x.ndim - 1)))


def _parts() -> int:
    """Return in how many parts the devices that share rows of the batch may have a table."""
    return math.prod(size for axis, size in free_axes().items() if axis.startswith("model"))


def _row_axes() -> tuple[str, ...]:
    """Return the axes that split rows of the batch; () where fsdp does, which splits features too.

    Of sums that each device has of features, XLA makes sums of words, and then sends them all to all:
    of llama 1B, data 2, fsdp 4, 20 x 2048 tokens a device, more bytes than in float32.
    """
    sizes = free_axes()
    if sizes.get("fsdp", 1) > 1:
        return ()
    return tuple(axis for axis, size in sizes.items() if size > 1 and not axis.startswith("model"))
