"""Frozen matrices in few bits (QLoRA, Dettmers et al. 2023): a code an element, a scale a block of them.

A matrix (..., in, out) is codes (..., G, rows, out) and scales (..., G, 1, out): G blocks along `in`,
each of `rows` bytes a column. What is stored so is no more than read: it has no gradient.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

# Of the normal distribution, each as often as the others, and one of them 0: QLoRA, appendix E.
NORMAL = (
    *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0),
    *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
)


@dataclass(frozen=True)
class Blocks:
    """A way of storing matrices.

    top: the largest absolute value of what a code stands for.
    packed: codes in a byte, of rows that follow each other.
    encode: float32 values of at most `top` -> their codes.
    decode: codes -> values of a dtype.
    """

    top: float
    packed: int
    encode: Callable[[jax.Array], jax.Array]
    decode: Callable[[jax.Array, jax.typing.DTypeLike], jax.Array]

    def quantize(self, matrix: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
        """Return (codes, scales) of a matrix; scales are of its dtype. Raises ValueError.

        block: elements of a column that share a scale; where it does not divide the rows, as many of
        them as do.
        """
        *stack, size, columns = matrix.shape
        block = math.gcd(size, block)
        if block % self.packed:
            raise ValueError(
                f"{size} rows: {self.packed} codes lie in a byte, so give an even number"
            )
        blocks = matrix.reshape(*stack, size // block, block, columns).astype(jnp.float32)
        largest = jnp.abs(blocks).max(axis=-2, keepdims=True)
        scales = (largest / self.top).astype(matrix.dtype)
        values = blocks / jnp.where(scales == 0, 1, scales).astype(jnp.float32)
        codes = self.encode(jnp.clip(values, -self.top, self.top))
        parts = [
            codes[..., i :: self.packed, :] << (i * 8 // self.packed) for i in range(self.packed)
        ]
        return sum(parts[1:], parts[0]), scales

    def restore(
        self, codes: jax.Array, scales: jax.Array, dtype: jax.typing.DTypeLike
    ) -> jax.Array:
        """Return the matrix, as nearly as it is stored, (..., in, out)."""
        *stack, blocks, rows, columns = codes.shape
        if self.packed > 1:
            bits = 8 // self.packed
            parts = [codes >> (i * bits) & (1 << bits) - 1 for i in range(self.packed)]
            codes = jnp.stack(parts, axis=-2).reshape(*stack, blocks, -1, columns)
        values = self.decode(codes, dtype) * scales.astype(dtype)
        return values.reshape(*stack, blocks * rows * self.packed, columns)

    def product(self, x: jax.Array, codes: jax.Array, scales: jax.Array) -> jax.Array:
        """Return x @ the matrix, in the dtype of x.

        The backward pass restores the matrix again, whatever else is saved for it.
        """
        return _product(self, x, codes, scales)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(form: Blocks, x: jax.Array, codes: jax.Array, scales: jax.Array) -> jax.Array:
    return x @ form.restore(codes, scales, x.dtype)


def _forward(
    form: Blocks, x: jax.Array, *stored: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _product(form, x, *stored), stored


def _backward(
    form: Blocks, stored: tuple[jax.Array, jax.Array], slope: jax.Array
) -> tuple[jax.Array, None, None]:
    return slope @ form.restore(*stored, slope.dtype).T, None, None


_product.defvjp(_forward, _backward)


def _round(values: jax.Array) -> jax.Array:
    return jnp.rint(values).astype(jnp.int8)


def _cast(codes: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    return codes.astype(dtype)


def _nearest(values: jax.Array) -> jax.Array:
    """Return the number of the nearest level."""
    middles = [(low + high) / 2 for low, high in zip(NORMAL, NORMAL[1:], strict=False)]
    return sum((values > middle).astype(jnp.uint8) for middle in middles)  # type: ignore[return-value]


def _choose(codes: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Return the levels of codes. By their bits: a look-up is slow on a TPU, and fuses nowhere."""
    levels = [jnp.asarray(level, dtype) for level in NORMAL]
    for bit in range(4):
        odd = (codes >> bit & 1).astype(bool)
        levels = [jnp.where(odd, b, a) for a, b in zip(levels[::2], levels[1::2], strict=True)]
    return levels[0]


INT8 = Blocks(127.0, 1, _round, _cast)
NF4 = Blocks(1.0, 2, _nearest, _choose)
OF_CODES = {"int8": INT8, "uint8": NF4}  # dtype of codes -> how they are stored
