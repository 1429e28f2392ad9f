"""A small network whose every step depends on all before it: dropout, momentum, running statistics."""

import numpy as np
from flax import nnx

WIDTH = 256


class Net(nnx.Module):
    """Numbers of shape (B, WIDTH)."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.norm = nnx.BatchNorm(4 * width, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x):
        return self.down(self.dropout(nnx.gelu(self.norm(self.up(x)))))


def example():
    return {"width": WIDTH}, {"x": np.zeros((1, WIDTH), np.float32)}
