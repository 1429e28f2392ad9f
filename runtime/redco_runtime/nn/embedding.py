"""Rows of a table, and the gradient of the table, for which devices send as little as they can.

Shape letters: B batch, S sequence, D embed, V vocab.
"""

import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from ..layout.activations import spec_of
from ..layout.mesh import add_up, axes_of, free_axes, on_parts

Axes = tuple[str, ...]


def look_up(
    table_VD: jax.Array, ids_BS: jax.Array, dtype: str | None = None, name: str | None = None
) -> jax.Array:
    """Return rows_BSD of a table, in `dtype`; None for that of the table.

    In it devices send rows, and their gradients, which add up in float32.

    name: of the activation that rows become. Each device looks up its part of that, in a shard_map:
        left to XLA (jaxlib 0.10), a table is sent over `data` where fsdp splits D of it and ids, and
        within the shard_map of micro-batches over `data` XLA aborts.
    """
    if rest := -len(table_VD) % _parts():  # or the table is gathered on its way into the shard_map
        table_VD = jnp.pad(table_VD, ((0, rest), (0, 0)))
    table, stored = jax.ShapeDtypeStruct(table_VD.shape, jnp.float32), table_VD.dtype
    layout = _layout((*ids_BS.shape, table_VD.shape[1]), name)
    batch, sequence, embed = layout
    split = _parts() > 1

    def own(table_VD: jax.Array, ids_BS: jax.Array) -> jax.Array:
        if split:  # a sum over devices, which each have a part of the rows of the table
            return table_VD.astype(dtype or stored)[ids_BS]
        return table_VD[ids_BS].astype(dtype or stored)

    specs = P(None, embed), P(batch, sequence)
    rows = on_parts(own, sum(layout, ()), in_specs=specs, out_specs=P(*layout))

    def forward(table_VD: jax.Array, ids_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
        return rows(table_VD, ids_BS), ids_BS

    def pull(ids_BS: jax.Array, grads_BSD: jax.Array) -> tuple[jax.Array, None]:
        return _gradient(table, layout, ids_BS, grads_BSD).astype(stored), None

    run = jax.custom_vjp(rows)
    run.defvjp(forward, pull)
    return run(table_VD, ids_BS)


def _gradient(
    table: jax.ShapeDtypeStruct, layout: list[Axes], ids_BS: jax.Array, grads_BSD: jax.Array
) -> jax.Array:
    """Return the gradients of rows, added up in the shape and the dtype of `table`.

    Each device adds up those of all rows, where they are fewer than what an all-reduce would send of
    the sums; otherwise those of its own, and the sums are reduced in the dtype of the gradients.
    """
    batch, sequence, embed = layout
    # An all-reduce sends twice what a device has of the table (Patarasuk and Yuan 2009).
    whole = not batch + sequence or ids_BS.size * _parts() <= 2 * table.shape[0]

    def own(ids_BS: jax.Array, grads_BSD: jax.Array) -> jax.Array:
        part = jax.ShapeDtypeStruct((table.shape[0], grads_BSD.shape[2]), table.dtype)
        pull = jax.linear_transpose(lambda table_VD: table_VD[ids_BS], part)
        sums_VD = pull(grads_BSD.astype(table.dtype))[0]
        return sums_VD if whole else sums_VD.astype(grads_BSD.dtype)[None]

    tokens = P(None, None) if whole else P(batch, sequence)
    sums = P(None, embed) if whole else P(batch + sequence, None, embed)
    run = on_parts(own, sum(layout, ()), in_specs=(tokens, P(*tokens, embed)), out_specs=sums)
    grads = run(ids_BS, grads_BSD)
    return grads if whole else add_up(grads, 1).astype(table.dtype)


def _layout(shape: tuple[int, ...], name: str | None) -> list[Axes]:
    """Return the axes that split each dim of rows; none where they have no name."""
    sizes, spec = free_axes(), P(*(None for _ in shape)) if name is None else spec_of(shape, name)
    return [tuple(axis for axis in axes_of(entry) if sizes[axis] > 1) for entry in spec]


def _parts() -> int:
    """Return in how many parts the devices that share rows of the batch may have a table."""
    return math.prod(size for axis, size in free_axes().items() if axis.startswith("model"))
