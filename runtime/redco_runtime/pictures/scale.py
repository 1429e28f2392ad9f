"""Pixels as models compute with them: from -1 to 1, and back."""

import jax
import jax.numpy as jnp


def scale_pixels(pixels_BHWC: jax.Array) -> jax.Array:
    """Return float32 from -1 to 1 of numbers from 0 to 255."""
    return pixels_BHWC.astype(jnp.float32) / 127.5 - 1


def round_pixels(x_BHWC: jax.Array) -> jax.Array:
    """Return uint8 of numbers from -1 to 1; those beyond are cut."""
    return jnp.round((x_BHWC.clip(-1, 1) + 1) * 127.5).astype(jnp.uint8)
