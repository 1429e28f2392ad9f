"""A regressor of few parameters, which a few steps of gradient descent change much.

B points, F features.
"""

from dataclasses import dataclass

import jax
from flax import nnx


@dataclass(frozen=True)
class RegressorConfig:
    """The sizes of a Regressor."""

    inputs: int = 1  # numbers of a point
    width: int = 256  # features of a hidden layer
    hidden_layers: int = 2


class Regressor(nnx.Module):
    """An MLP from points to a number each."""

    def __init__(self, config: RegressorConfig, *, rngs: nnx.Rngs):
        sizes = [config.inputs, *[config.width] * config.hidden_layers]
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = nnx.List([nnx.Linear(*pair, rngs=rngs) for pair in pairs])
        self.head = nnx.Linear(config.width, 1, rngs=rngs)

    def __call__(self, x_BF: jax.Array) -> jax.Array:
        """Return y_B."""
        for layer in self.layers:
            x_BF = nnx.relu(layer(x_BF))
        return self.head(x_BF)[:, 0]
