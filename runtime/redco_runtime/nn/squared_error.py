"""The loss of numbers."""

import jax
import jax.numpy as jnp

from ..base.messages import UserError


def squared_error(output: jax.Array, target: jax.Array) -> jax.Array:
    """Return the square of each difference. Raises UserError where the two have other shapes: one would be repeated."""
    if output.shape != target.shape:
        raise UserError(
            f"loss() in pipeline.py: the model gives numbers of shape {output.shape}, and the targets have "
            f"{target.shape}: give both one shape, by what examples() returns or by the class"
        )
    return jnp.square(output.astype(jnp.float32) - target)
