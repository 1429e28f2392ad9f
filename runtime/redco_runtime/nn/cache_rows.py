"""The rows and slots of a model's cache, whatever arrays it has; and rows of other arrays, their first dim.

Rows are in M parts of the same size, of which devices have whole ones: nothing moves from one to another.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

NONE = -1  # the dim of what an array has none of


class CacheRows:
    """Moves rows and slots of caches that `init_cache(rows, slots)` makes. parts: M."""

    def __init__(self, init_cache: Callable[[int, int], Any], parts: int) -> None:
        one, rows, slots = (
            jax.eval_shape(lambda sizes=sizes: init_cache(*sizes))
            for sizes in ((1, 1), (2, 1), (1, 2))
        )
        self._parts = parts
        self._dims = jax.tree.map(_other_dim, one, rows), jax.tree.map(_other_dim, one, slots)

    def refill(self, cache: Any, at_MR, back, read: Any, of_MR, ahead, new_R) -> Any:
        """Return the rows at_MR of `cache`, `back` slots earlier; those that are new are of_MR of `read`, `ahead` later."""

        def of_leaf(x, other, dim, slots):
            old, new = take_rows(x, at_MR, dim), take_rows(other, of_MR, dim)
            if slots != NONE:
                more = [(0, x.shape[i] - new.shape[i]) for i in range(x.ndim)]
                old, new = jnp.roll(old, -back, slots), jnp.roll(jnp.pad(new, more), ahead, slots)
            shape = [-1 if i == dim else 1 for i in range(x.ndim)]
            return old if dim == NONE else jnp.where(new_R.reshape(shape), new, old)

        return jax.tree.map(of_leaf, cache, read, *self._dims)

    def first(self, cache: Any, rows: int, slots: int) -> Any:
        """Return the first rows of each part, and their first slots."""

        def of_leaf(x, dim, slots_dim):
            x = x if slots_dim == NONE else jax.lax.slice_in_dim(x, 0, slots, axis=slots_dim)
            return first_rows(x, rows, self._parts, dim)

        return jax.tree.map(of_leaf, cache, *self._dims)

    def put(self, cache: Any, part: Any) -> Any:
        """Return `cache` with what `first` has returned of it in its place."""

        def of_leaf(x, own, dim):
            return put_rows(x, own, self._parts, dim)

        return jax.tree.map(of_leaf, cache, part, self._dims[0])


def take_rows(x: jax.Array, at_MR: jax.Array, dim: int = 0) -> jax.Array:
    """Return the rows at_MR of x, each counted in its part."""
    if dim == NONE:
        return x
    take = jax.vmap(lambda part, at_R: jnp.take(part, at_R, dim, mode="clip"), (dim, 0), dim)
    return _join(take(in_parts(x, len(at_MR), dim), at_MR), dim)


def first_rows(x: jax.Array, count: int, parts: int, dim: int = 0) -> jax.Array:
    """Return the first rows of each part of x."""
    if dim == NONE:
        return x
    return _join(jax.lax.slice_in_dim(in_parts(x, parts, dim), 0, count, axis=dim + 1), dim)


def put_rows(x: jax.Array, rows: jax.Array, parts: int, dim: int = 0) -> jax.Array:
    """Return x with `rows` as the first of each part; in other dims they may have less, from 0 on."""
    if dim == NONE:
        return rows
    wide, rows = in_parts(x, parts, dim), in_parts(rows, parts, dim)
    return _join(jax.lax.dynamic_update_slice(wide, rows, (0,) * wide.ndim), dim)


def in_parts(x: jax.Array, parts: int, dim: int = 0) -> jax.Array:
    """Return x with the parts of its rows as a dim of their own, before `dim`."""
    return x.reshape(*x.shape[:dim], parts, -1, *x.shape[dim + 1 :])


def _join(x: jax.Array, dim: int) -> jax.Array:
    return x.reshape(*x.shape[:dim], -1, *x.shape[dim + 2 :])


def _other_dim(one: jax.ShapeDtypeStruct, other: jax.ShapeDtypeStruct) -> int:
    """Return the dim of two shapes that has another size."""
    pairs = enumerate(zip(one.shape, other.shape, strict=True))
    return next((i for i, (size, larger) in pairs if size != larger), NONE)
