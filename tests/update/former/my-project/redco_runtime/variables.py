"""What a model holds besides its parameters: what a step carries to the next one, and random streams."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

APART = 1 << 31  # no count that nnx.Rngs(key) comes to, so that its keys are others


def carried(model: nnx.Module) -> Any:
    """Running statistics and the like, as a nested dict."""
    others = nnx.Any(nnx.Param, nnx.RngState, nnx.Intermediate)
    return nnx.to_pure_dict(nnx.state(model, nnx.Not(others)))


def streams(random: nnx.State, key: jax.Array) -> Any:
    """The random streams of a model, anew, as a nested dict: all that they give follows from `key`.

    random: its nnx.RngState, of arrays or ShapeDtypeStructs.
    """
    leaves, structure = jax.tree.flatten(nnx.to_pure_dict(random))
    keys = jax.random.split(jax.random.fold_in(key, APART), max(len(leaves), 1))

    def renew(leaf: Any, key: jax.Array) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(key, leaf.shape) if leaf.shape else key
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.unflatten(structure, map(renew, leaves, keys))
