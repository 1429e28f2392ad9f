"""Losses whose gradient is computed otherwise than by differentiating them: federated, private training."""

from typing import Any

import jax
import jax.numpy as jnp


def with_gradient(value: jax.Array, params: Any, gradient: Any) -> jax.Array:
    """Return the scalar `value`, whose gradient by `params` is `gradient`, a tree of the same shapes.

    params: what a caller differentiates by; neither `value` nor `gradient` is differentiated.
    """
    value, gradient = jax.lax.stop_gradient((value, gradient))
    # Zero, but for its gradient.
    parts = jax.tree.map(lambda p, g: jnp.sum((p - jax.lax.stop_gradient(p)) * g), params, gradient)
    return value + sum(jax.tree.leaves(parts))
