"""Numbers at places: added where an array says, and those that are the largest along a dim."""

import jax
import jax.numpy as jnp


def add_along(x: jax.Array, index: jax.Array, y: jax.Array, axis: int) -> jax.Array:
    """Return x to which y is added along one dim, at the places of `index`, which has y's shape; places that are equal add up."""
    places = list(jnp.indices(index.shape, sparse=True))
    places[axis] = index
    return x.at[tuple(places)].add(y)


def largest(x: jax.Array, axis: int, keepdims: bool = False) -> tuple[jax.Array, jax.Array]:
    """Return the largest values along a dim, and their places; of equal ones the first, which alone has the gradient, as in PyTorch.

    The gradient of jnp.max goes where x is the maximum: nowhere in a backward pass that computes x otherwise in its last bit.
    """
    return _at(x, jnp.argmax(x, axis, keepdims=True), axis, keepdims)


def smallest(x: jax.Array, axis: int, keepdims: bool = False) -> tuple[jax.Array, jax.Array]:
    """Return the smallest values along a dim, and their places, as `largest`."""
    return _at(x, jnp.argmin(x, axis, keepdims=True), axis, keepdims)


def _at(x: jax.Array, places: jax.Array, axis: int, keepdims: bool) -> tuple[jax.Array, jax.Array]:
    values = jnp.take_along_axis(x, places, axis)
    return (values, places) if keepdims else (values.squeeze(axis), places.squeeze(axis))
