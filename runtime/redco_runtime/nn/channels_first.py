"""Layers of images whose channels are their second dim: x (B, C, *space), as classes of PyTorch have them.

What they hold is as in flax.nnx. XLA lays arrays out as its kernels want them, whatever the order of dims.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from .uniform import KERNEL, between


class Conv(nnx.Conv):
    """nnx.Conv of (B, C, *space), with the parameters that PyTorch's begin with."""

    def __init__(
        self, in_features: int, out_features: int, kernel_size: tuple[int, ...], **options: Any
    ):
        summed = math.prod(kernel_size) * in_features // options.get("feature_group_count", 1)
        options = {"kernel_init": KERNEL, "bias_init": between(summed**-0.5)} | options
        super().__init__(in_features, out_features, kernel_size, **options)

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return the convolution, (B, features, *space)."""
        return jnp.moveaxis(super().__call__(jnp.moveaxis(x, 1, -1)), -1, 1)


class GroupNorm(nnx.GroupNorm):
    """nnx.GroupNorm of (B, C, *space)."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return `x`, each group of its channels with mean 0 and variance 1, scaled."""
        return jnp.moveaxis(super().__call__(jnp.moveaxis(x, 1, -1)), -1, 1)


class BatchNorm(nnx.BatchNorm):
    """nnx.BatchNorm of (B, C, *space), whose running variance is that of a sample: by n - 1."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return `x`, each channel with mean 0 and variance 1 of the batch (in training), scaled."""
        before = self.var[...]
        y = jnp.moveaxis(super().__call__(jnp.moveaxis(x, 1, -1)), -1, 1)
        if not self.use_running_average:
            count = x.size // x.shape[1]
            rest = self.momentum * before
            self.var[...] = rest + (self.var[...] - rest) * (count / (count - 1))
        return y


def max_pool(
    x: jax.Array,
    window: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
) -> jax.Array:
    """Return the largest number of each window of (B, C, *space); strides: the window's sizes by default."""
    pads = [(n, n) for n in padding or [0] * len(window)]
    y = nnx.max_pool(
        jnp.moveaxis(x, 1, -1), tuple(window), strides=tuple(strides or window), padding=pads
    )
    return jnp.moveaxis(y, -1, 1)


def avg_pool(
    x: jax.Array,
    window: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    count_padding: bool = True,
) -> jax.Array:
    """Return the mean of each window of (B, C, *space); count_padding: whether zeros at the border count."""
    pads = [(n, n) for n in padding or [0] * len(window)]
    y = nnx.avg_pool(
        jnp.moveaxis(x, 1, -1), tuple(window), strides=tuple(strides or window), padding=pads,
        count_include_pad=count_padding,
    )  # fmt: skip
    return jnp.moveaxis(y, -1, 1)
