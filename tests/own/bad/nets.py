"""Classes that cannot be trained, and one that can."""

import jax.numpy as jnp
from flax import nnx


class Net(nnx.Module):
    def __init__(self, features: int, classes: int = 10, *, rngs: nnx.Rngs):
        self.up = nnx.Linear(8, features, rngs=rngs)
        self.head = nnx.Linear(features, classes, rngs=rngs)

    def __call__(self, x):
        return self.head(nnx.relu(self.up(x)))


class Twins(Net):
    def __call__(self, x):
        return {"first": super().__call__(x), "second": super().__call__(x)}


class Branches(Net):
    def __call__(self, x):
        if x.sum() > 0:
            return super().__call__(x)
        return jnp.zeros((x.shape[0], 10))


class Plan:
    """No module at all."""
