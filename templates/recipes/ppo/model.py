"""A network from observations to numbers: of an actor, or of a critic.

F features. Dims before the last one are rows.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx


@dataclass(frozen=True)
class NetworkConfig:
    """The sizes of a Network."""

    inputs: int = 4  # numbers of an observation
    outputs: int = 2  # actions to choose from
    width: int = 64  # features of a hidden layer
    hidden_layers: int = 2


class Network(nnx.Module):
    """An MLP whose head begins near 0, so that actions begin about equally likely."""

    def __init__(self, config: NetworkConfig, *, rngs: nnx.Rngs):
        sizes = [config.inputs, *[config.width] * config.hidden_layers]
        pairs = zip(sizes[:-1], sizes[1:], strict=True)
        self.layers = nnx.List([nnx.Linear(*pair, rngs=rngs) for pair in pairs])
        small = nnx.initializers.normal(0.01)
        self.head = nnx.Linear(config.width, config.outputs, kernel_init=small, rngs=rngs)

    def __call__(self, x_F: jax.Array) -> jax.Array:
        """Return the numbers of each row of features."""
        for layer in self.layers:
            x_F = jnp.tanh(layer(x_F))
        return self.head(x_F)
