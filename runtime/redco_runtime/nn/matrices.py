"""Frozen matrices in few bits (QLoRA, Dettmers et al. 2023): what they are.

A matrix (..., in, out) is codes (..., G, rows, out) and scales (..., G, 1, out): G blocks along `in`, each
of `rows` bytes a column.
"""

import jax
import jax.numpy as jnp

# What 4 bits stand for: of the normal distribution, each as often as the others, and one of them 0.
# QLoRA, appendix E.
NORMAL = (
    *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0),
    *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
)


def restore(codes: jax.Array, scales: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Return the matrix, as nearly as it is stored: in 8 bits, int8, or in 4, two to a byte, uint8."""
    *stack, blocks, rows, columns = codes.shape
    if codes.dtype == jnp.uint8:
        rows *= 2
        codes = jnp.stack([codes & 15, codes >> 4], axis=-2).reshape(*stack, blocks, rows, columns)
        values = _levels(codes, dtype)
    else:
        values = codes.astype(dtype)
    values = values * scales.astype(dtype)
    return values.reshape(*stack, blocks * rows, columns)


def _levels(codes: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Return the levels of codes. By their bits: a look-up is slow on a TPU, and fuses nowhere."""
    levels = [jnp.asarray(level, dtype) for level in NORMAL]
    for bit in range(4):
        odd = (codes >> bit & 1).astype(bool)
        levels = [jnp.where(odd, b, a) for a, b in zip(levels[::2], levels[1::2], strict=True)]
    return levels[0]
