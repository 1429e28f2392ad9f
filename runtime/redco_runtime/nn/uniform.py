"""Linear layers that begin as PyTorch's do: weights and bias uniform, the smaller the more inputs a sum has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

# Between -1 and 1, over the square root of the inputs (torch.nn.Linear, torch.nn.Conv2d).
KERNEL = nnx.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


def between(bound: float) -> Callable[..., jax.Array]:
    """Return an initializer that draws numbers between -bound and bound."""

    def draw(key: jax.Array, shape: Any, dtype: Any = jnp.float32, *_: Any, **__: Any) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return draw


class Linear(nnx.Linear):
    """nnx.Linear with other parameters to begin with."""

    def __init__(self, in_features: int, out_features: int, **options: Any):
        options = {"kernel_init": KERNEL, "bias_init": between(in_features**-0.5)} | options
        super().__init__(in_features, out_features, **options)
