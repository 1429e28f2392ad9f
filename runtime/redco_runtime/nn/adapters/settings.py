"""What an adapter is: its settings, the names of its parameters, and what it adds to a matrix.

A matrix is (..., in, out). An adapter of it is two, (..., in, rank) and (..., rank, out); one of DoRA
(Liu et al. 2024) has (..., out) too: by how much the length of each column is to be another.
"""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp

# Ends of the paths of parameters.
A, B, M, KERNEL, CODES, SCALES = "/lora_a", "/lora_b", "/lora_m", "/kernel", "/codes", "/scales"

TINY = 1e-30  # of a column of zeros, which has no direction

Arrays = Mapping[str, jax.Array]  # by path


def scale_of(alpha: float, rank: float, use_rslora: bool) -> float:
    """Return what an adapter adds is times: as LoRA has it, or rsLoRA (Kalajdzievski 2023)."""
    return alpha / (rank**0.5 if use_rslora else rank)


def lengths(kernel: jax.Array, a: jax.Array, b: jax.Array, m: jax.Array, scale: float) -> jax.Array:
    """Return (..., out), float32: what DoRA makes the columns of kernel + scale * a @ b longer by."""
    first = kernel.astype(jnp.float32)
    length = jnp.linalg.norm(first + scale * (a @ b), axis=-2)
    return (jnp.linalg.norm(first, axis=-2) + m) / jnp.maximum(length, TINY)


def add_adapter(kernel: jax.Array, scale: float, adapter: Sequence[jax.Array]) -> jax.Array:
    """Return a matrix, float32, with what its adapter adds: (a, b), or (a, b, m)."""
    a, b, *m = adapter
    whole = kernel.astype(jnp.float32) + scale * (a @ b)
    return whole * lengths(kernel, a, b, m[0], scale)[..., None, :] if m else whole
