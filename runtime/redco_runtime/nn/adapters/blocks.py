"""How matrices are stored in few bits: a code an element, a scale a block of them, as of nn/matrices.py."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...base.messages import UserError
from ..matrices import NORMAL, restore
from ..stored_products import multiply_stored


@dataclass(frozen=True)
class Blocks:
    """A way of storing matrices.

    top: the largest absolute value of what a code stands for.
    packed: codes in a byte, of rows that follow each other.
    encode: float32 values of at most `top` -> their codes.
    """

    top: float
    packed: int
    encode: Callable[[jax.Array], jax.Array]

    def quantize(self, matrix: jax.Array, block: int) -> tuple[jax.Array, jax.Array]:
        """Return (codes, scales) of a matrix; scales are of its dtype. Raises UserError.

        block: elements of a column that share a scale; where it does not divide the rows, as many of
        them as do.
        """
        *stack, size, columns = matrix.shape
        number, block = block, math.gcd(size, block) if block > 0 else 1
        if block % self.packed or block == 1 < size:
            kind = "a number" if self.packed == 1 else "an even number"
            raise UserError(
                f"--lora-block: with {number}, {block} of {size} rows share a scale: give {kind} that divides the "
                "rows, such as 64"
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
        """Return the matrix, as nearly as it is stored."""
        return restore(codes, scales, dtype)

    def product(self, x: jax.Array, codes: jax.Array, scales: jax.Array) -> jax.Array:
        """Return x @ the matrix, in the dtype of x.

        The backward pass restores the matrix again, whatever else is saved for it.
        """
        return multiply_stored(jnp.matmul, x, (codes, scales))


def _round(values: jax.Array) -> jax.Array:
    return jnp.rint(values).astype(jnp.int8)


def _nearest(values: jax.Array) -> jax.Array:
    """Return the number of the nearest level."""
    middles = [(low + high) / 2 for low, high in zip(NORMAL, NORMAL[1:], strict=False)]
    return sum((values > middle).astype(jnp.uint8) for middle in middles)  # type: ignore[return-value]


INT8 = Blocks(127.0, 1, _round)
NF4 = Blocks(1.0, 2, _nearest)
FORMS = {"int8": INT8, "nf4": NF4}  # by the name that --lora has
OF_CODES = {"int8": INT8, "uint8": NF4}  # dtype of codes -> how they are stored
