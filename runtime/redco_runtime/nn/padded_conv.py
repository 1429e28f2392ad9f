"""A convolution whose borders are of the array itself, as `padding_mode` of PyTorch has them."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .channels_first import Conv


class PaddedConv(Conv):
    """Conv of (B, C, *space) that pads as jnp.pad does in a mode: "wrap", "reflect" or "edge"."""

    def __init__(
        self, *sizes: Any, mode: str, padding: Sequence[int] | int | str = 0, **options: Any
    ):
        super().__init__(*sizes, padding=0, **options)
        apart = options.get("kernel_dilation", 1)
        apart = [apart] * len(self.kernel_size) if isinstance(apart, int) else apart
        if padding == "SAME":
            spans = [d * (k - 1) for d, k in zip(apart, self.kernel_size, strict=True)]
            self.widths = tuple((n // 2, n - n // 2) for n in spans)
        else:
            widths = [padding] * len(apart) if isinstance(padding, int) else padding
            self.widths = tuple((int(n), int(n)) for n in widths)
        self.mode = mode

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Return the convolution, (B, features, *space)."""
        return super().__call__(jnp.pad(x, ((0, 0), (0, 0), *self.widths), mode=self.mode))
