"""Layers that begin as PyTorch's: numbers between -1 and 1, over the square root of what each sum has."""

import jax.numpy as jnp
import pytest
from flax import nnx

from redco_runtime.nn.channels_first import Conv
from redco_runtime.nn.uniform import Linear


@pytest.mark.parametrize(
    ("layer", "summed"),
    [
        (lambda rngs: Linear(256, 512, rngs=rngs), 256),
        (lambda rngs: Conv(64, 128, (3, 3), feature_group_count=2, padding=1, rngs=rngs), 288),
    ],
)
def test_parameters_are_uniform_up_to_the_bound_of_pytorch(layer, summed):
    bound = summed**-0.5
    made = layer(nnx.Rngs(0))
    for x in (made.kernel[...], made.bias[...]):
        assert 0.95 * bound < jnp.abs(x).max() <= bound
        assert jnp.std(x) == pytest.approx(bound / 3**0.5, rel=0.1)
