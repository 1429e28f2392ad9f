"""Products with matrices that are stored in few bits, which have no gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .matrices import restore

Stored = tuple[jax.Array, jax.Array]  # codes and scales


def multiply_stored(
    multiply: Callable[..., jax.Array], x: jax.Array, stored: Stored, *others: jax.Array
) -> jax.Array:
    """Return multiply(x, matrix, *others), which is linear in x and has no other gradient.

    The backward pass restores the matrix again, whatever else is saved for it, and needs no x.
    """
    return _multiply(multiply, x.shape, x, stored, *others)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _multiply(multiply: Any, shape: Any, x: jax.Array, stored: Stored, *others: Any) -> jax.Array:
    codes, scales = stored
    product: jax.Array = multiply(x, restore(codes, scales, x.dtype), *others)
    return product


def _forward(multiply: Any, shape: Any, x: jax.Array, *rest: Any) -> tuple[jax.Array, Any]:
    return _multiply(multiply, shape, x, *rest), rest


def _backward(multiply: Any, shape: Any, rest: Any, slope: jax.Array) -> tuple[Any, ...]:
    (codes, scales), *others = rest
    matrix = restore(codes, scales, slope.dtype)
    # Any x does, if it varies over the devices of a shard_map as the slope does.
    x = jnp.broadcast_to(slope.reshape(-1)[0], shape)
    _, back = jax.vjp(lambda x: multiply(x, matrix, *others), x)
    return *back(slope), *(None for _ in rest)


_multiply.defvjp(_forward, _backward)
