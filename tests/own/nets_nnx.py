"""Classes as users write them, of Flax NNX."""

import jax
import jax.numpy as jnp
from flax import nnx


class SmallCNN(nnx.Module):
    """An image classifier: logits of shape (B, classes)."""

    def __init__(self, features: tuple[int, ...], classes: int = 10, *, rngs: nnx.Rngs):
        self.conv1 = nnx.Conv(1, features[0], (3, 3), strides=2, rngs=rngs)
        self.conv2 = nnx.Conv(features[0], features[1], (3, 3), rngs=rngs)
        self.head = nnx.Linear(features[1], classes, rngs=rngs)

    def __call__(self, image):
        x = nnx.relu(self.conv1(image))
        return self.head(nnx.relu(self.conv2(x)).mean((1, 2)))


class Places(nnx.Module, pytree=False):
    """Adds a table to rows: an array that is no variable, in a module that is no pytree."""

    def __init__(self, length: int, width: int):
        self.table = jnp.sin(jnp.arange(length * width) / length).reshape(length, width)

    def __call__(self, x):
        return x + self.table[: x.shape[1]]


class Noisy(nnx.Module):
    """A language model with its own random streams, statistics and tables: logits (B, S, words)."""

    def __init__(self, words: int, width: int, seed: int = 0, *, rngs: nnx.Rngs):
        self.embed = nnx.Embed(words, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
        self.noise = nnx.Rngs(noise=seed)
        self.places, self.scale = Places(64, width), jnp.ones(width)
        self.deterministic = False

    def __call__(self, ids):
        x = self.places(self.embed(ids)) * self.scale
        if not self.deterministic:
            x += 0.01 * jax.random.normal(self.noise.noise(), x.shape)
        x += self.dropout(self.down(nnx.gelu(self.up(self.norm(x)))))
        return self.embed.attend(x)


class Pair(nnx.Module):
    """Two numbers for each row, and what they were made of: a tuple."""

    def __init__(self, dims: dict[str, int], *, rngs: nnx.Rngs):
        self.up = nnx.Linear(dims["in"], dims["hidden"], rngs=rngs)
        self.down = nnx.Linear(dims["hidden"], dims["out"], rngs=rngs)

    def __call__(self, x):
        hidden = jnp.tanh(self.up(x))
        return self.down(hidden), hidden
