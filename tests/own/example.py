"""What a user can point to in the place of [model] and [inputs]."""

import numpy as np
from flax import linen as nn


class Plain(nn.Module):
    """Logits (B, 3), with a constructor that no TOML can call."""

    activation: object
    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(self.activation(nn.Dense(self.width)(x)))


def plain():
    """The arguments of Plain, and a batch of two rows."""
    return {"activation": nn.silu, "width": 16}, {"x": np.zeros((2, 6), np.float32)}
