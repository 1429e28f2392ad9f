"""Classes whose calls take more than arrays with B, and what makes classes."""

import functools

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx


class Encoder(nnx.Module):
    """An encoder: text nested in a dict, a cache that is None, a mask [S], a scalar step."""

    def __init__(self, words: int, width: int, *, rngs: nnx.Rngs):
        self.embed = nnx.Embed(words, width, rngs=rngs)
        self.out = nnx.Linear(width, words, rngs=rngs)

    def __call__(self, text, cache, mask, step, scales):
        assert cache is None
        x = self.embed(text["ids"]) + text["pair"][0][..., None] * scales["low"]
        return self.out(jnp.where(mask[:, None], x, 0.0) * jnp.where(step > 0, 1.0, 2.0))

    def encode(self, ids):
        return self.out(self.embed(ids))


class Head(nn.Module):
    """A classifier with a method of its own, and a submodule."""

    width: int
    classes: int = 3

    def setup(self):
        self.up = nn.Dense(self.width)
        self.down = nn.Dense(self.classes)

    def __call__(self, x, flag):
        return self.down(self.up(x) if flag == "up" else x)

    def score(self, x, *, scale):
        return self.down(nn.relu(self.up(x))) * scale


def make_head(width: int, classes: int = 3) -> Head:
    """A function that makes a module, of Linen."""
    return Head(width, classes)


def make_encoder(words: int, *, rngs: nnx.Rngs):
    """A function that makes a module, of NNX."""
    return Encoder(words, 16, rngs=rngs)


class Named(nn.Module):
    """A classifier with a part that the bridge to NNX has too."""

    module: nn.Module

    @nn.compact
    def __call__(self, x):
        return self.module(x)


def make_named() -> Named:
    """A function that makes a module with one in it."""
    return Named(nn.Dense(3))


narrow = functools.partial(Head, 8)
made = Head(8)


def example():
    """Arguments and inputs of Encoder, in all the forms that a call can take."""
    text = {"ids": np.arange(12, dtype=np.int32)[None] % 9, "pair": [np.ones((1, 12), np.float32)]}
    mask = np.array([1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1], bool)
    call = {"text": text, "cache": None, "mask": mask, "step": np.int32(3), "scales": {"low": 0.5}}
    return {"words": 32, "width": 16}, call
