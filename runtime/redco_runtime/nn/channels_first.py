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


class ConvTranspose(nnx.ConvTranspose):
    """nnx.ConvTranspose of (B, C, *space), padded and begun as PyTorch's: the gradient of a Conv."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: tuple[int, ...],
        *,
        padding: Sequence[int] | int = 0,
        output_padding: Sequence[int] | int = 0,
        kernel_dilation: Sequence[int] | int = 1,
        **options: Any,
    ):
        less, more, apart = (
            [x] * len(kernel_size) if isinstance(x, int) else x
            for x in (padding, output_padding, kernel_dilation)
        )
        ends = [d * (k - 1) - p for d, k, p in zip(apart, kernel_size, less, strict=True)]
        pads = [(end, end + extra) for end, extra in zip(ends, more, strict=True)]
        summed = math.prod(kernel_size) * out_features
        options = {"kernel_init": KERNEL, "bias_init": between(summed**-0.5)} | options
        options |= {"padding": pads, "kernel_dilation": tuple(apart), "transpose_kernel": True}
        super().__init__(in_features, out_features, kernel_size, **options)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return (B, features, *space), as much larger as strides say."""
        return jnp.moveaxis(super().__call__(jnp.moveaxis(x, 1, -1)), -1, 1)


class GroupNorm(nnx.GroupNorm):
    """nnx.GroupNorm of (B, C, *space)."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return `x`, each group of its channels with mean 0 and variance 1, scaled."""
        return jnp.moveaxis(super().__call__(jnp.moveaxis(x, 1, -1)), -1, 1)


def group_norm(x: jax.Array, groups: int, epsilon: float) -> jax.Array:
    """Return `x` (B, C, *space), each group of its channels with mean 0 and variance 1."""
    apart = x.reshape(x.shape[0], groups, -1)
    return jax.nn.standardize(apart, axis=-1, epsilon=epsilon).reshape(x.shape)


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
    ceil: bool = False,
) -> jax.Array:
    """Return the largest number of each window of (B, C, *space); strides: the window's sizes by default.

    ceil: whether a window may reach over the border, where one begins before it.
    """
    steps = tuple(strides or window)
    pads = _pads(x.shape[2:], window, steps, padding or [0] * len(window), ceil)
    y = nnx.max_pool(jnp.moveaxis(x, 1, -1), tuple(window), strides=steps, padding=pads)
    return jnp.moveaxis(y, -1, 1)


def avg_pool(
    x: jax.Array,
    window: Sequence[int],
    *,
    strides: Sequence[int] | None = None,
    padding: Sequence[int] | None = None,
    count_padding: bool = True,
    ceil: bool = False,
) -> jax.Array:
    """Return the mean of each window of (B, C, *space); count_padding: whether zeros at the border count, but for those of ceil."""
    steps, count = tuple(strides or window), count_padding and not ceil
    pads = _pads(x.shape[2:], window, steps, padding or [0] * len(window), ceil)
    y = nnx.avg_pool(
        jnp.moveaxis(x, 1, -1), tuple(window), strides=steps, padding=pads, count_include_pad=count
    )
    return jnp.moveaxis(y, -1, 1)


def _pads(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
) -> list[tuple[int, int]]:
    """Return how many zeros stand before and after each dim: with ceil enough for a last window that begins before them."""
    pads = []
    for size, width, step, before in zip(sizes, window, strides, padding, strict=True):
        last = -(-(size + 2 * before - width) // step) * step  # where the last window begins
        last -= step if last >= size + before else 0
        more = max(0, last + width - size - 2 * before)
        pads.append((before, before + (more if ceil else 0)))
    return pads


def enlarge(x: jax.Array, times: int, mode: str = "nearest", **options: Any) -> jax.Array:
    """Return (B, C, *space), each dim of space so many times as large: as `resize` has them."""
    return resize(x, [times * n for n in x.shape[2:]], mode, **options)


def resize(
    x: jax.Array, sizes: Sequence[int], mode: str = "nearest", align_corners: bool = False
) -> jax.Array:
    """Return (B, C, *sizes), as torch.nn.functional.interpolate has it.

    mode: "nearest", or "linear": between two in each dim. align_corners: whether the first and the last of a dim stay
    where they are, and not the borders around them.
    """
    for dim, new in enumerate(sizes, 2):
        old, i = x.shape[dim], jnp.arange(new)
        if mode == "nearest":
            x = jnp.take(x, i * old // new, axis=dim)
            continue
        if align_corners:
            place = i * ((old - 1) / max(new - 1, 1))
        else:
            place = jnp.maximum((i + 0.5) * (old / new) - 0.5, 0)
        low = jnp.minimum(place.astype(jnp.int32), old - 1)
        share = (place - low).astype(x.dtype).reshape(-1, *[1] * (x.ndim - dim - 1))
        high = jnp.minimum(low + 1, old - 1)
        x = jnp.take(x, low, axis=dim) * (1 - share) + jnp.take(x, high, axis=dim) * share
    return x


def pixel_shuffle(x: jax.Array, times: int) -> jax.Array:
    """Return (B, C / times^2, times * H, times * W) of (B, C, H, W): channels become what lies beside each other."""
    B, _, H, W = x.shape
    x = x.reshape(B, -1, times, times, H, W).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(B, -1, H * times, W * times)


def pixel_unshuffle(x: jax.Array, times: int) -> jax.Array:
    """Return (B, C * times^2, H / times, W / times) of (B, C, H, W), as `pixel_shuffle` had it before."""
    B, _, H, W = x.shape
    x = x.reshape(B, -1, H // times, times, W // times, times).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(B, -1, H // times, W // times)
