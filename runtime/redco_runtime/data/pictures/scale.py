"""Pixels as models compute with them: by a mean and a deviation, from -1 to 1 by default, and back."""

import jax
import jax.numpy as jnp


def scale_pixels(
    pixels_BHWC: jax.Array, mean_BC: jax.Array | None = None, std_BC: jax.Array | None = None
) -> jax.Array:
    """Return float32 of numbers from 0 to 255: from -1 to 1, or less their mean, over their deviation.

    mean, std: of numbers from 0 to 1.
    """
    x_BHWC = pixels_BHWC.astype(jnp.float32)
    if mean_BC is None or std_BC is None:
        return x_BHWC / 127.5 - 1
    mean_B11C, std_B11C = mean_BC[:, None, None], std_BC[:, None, None]
    return x_BHWC / (255 * std_B11C) - mean_B11C / std_B11C


def round_pixels(x_BHWC: jax.Array) -> jax.Array:
    """Return uint8 of numbers from -1 to 1; those beyond are cut."""
    return jnp.round((x_BHWC.clip(-1, 1) + 1) * 127.5).astype(jnp.uint8)
