"""A classifier of a user's own, with dropout and batch statistics."""

from flax import linen as nn


class Net(nn.Module):
    width: int
    classes: int
    rate: float = 0.1

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(self.width)(x))
        x = nn.Dropout(self.rate, deterministic=not train)(nn.relu(x))
        x = nn.relu(nn.Dense(4 * self.width)(x))
        return nn.Dense(self.classes)(x)
