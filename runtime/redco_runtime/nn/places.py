"""Numbers that are added at places which an array says."""

import jax
import jax.numpy as jnp


def add_along(x: jax.Array, index: jax.Array, y: jax.Array, axis: int) -> jax.Array:
    """Return x to which y is added along one dim, at the places of `index`, which has y's shape; places that are equal add up."""
    places = list(jnp.indices(index.shape, sparse=True))
    places[axis] = index
    return x.at[tuple(places)].add(y)
