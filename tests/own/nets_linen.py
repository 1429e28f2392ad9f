"""Classes as users write them, of Flax Linen."""

import jax.numpy as jnp
from flax import linen as nn

SCALE = jnp.ones(()) / 2  # computed where the file is imported


class Mixer(nn.Module):
    """A classifier with dropout, batch statistics and a collection of its own: logits (B, classes)."""

    width: int
    classes: int = 10
    rate: float = 0.1

    @nn.compact
    def __call__(self, x, train: bool):
        calls = self.variable("counts", "calls", lambda: jnp.zeros((), jnp.int32))
        if train and not self.is_initializing():
            calls.value += 1
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(self.width)(SCALE * x))
        x = nn.Dropout(self.rate, deterministic=not train)(nn.relu(x))
        x = nn.relu(nn.Dense(4 * self.width)(x))
        return nn.Dense(self.classes)(x)


class Tagger(nn.Module):
    """A text classifier that gives a dict, of two heads."""

    words: int
    width: int

    @nn.compact
    def __call__(self, ids, mask):
        x = nn.Embed(self.words, self.width)(ids) * mask[..., None]
        x = nn.gelu(nn.Dense(4 * self.width)(x.mean(1)))
        return {"topic": nn.Dense(8)(x), "tone": nn.Dense(3)(x)}


class Translator(nn.Module):
    """An encoder and a decoder: logits (B, T, words)."""

    words: int
    width: int

    @nn.compact
    def __call__(self, source, target, deterministic: bool):
        embed = nn.Embed(self.words, self.width)
        x = embed(source)
        x += nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(x)))
        y = embed(target)
        y += jnp.cumsum(y, axis=1)  # of what is before it
        y += nn.MultiHeadDotProductAttention(4)(y, x)
        return embed.attend(nn.Dropout(0.1, deterministic=deterministic)(y))


class Residual(nn.Module):
    """Two products beside a connection that has one of its own where widths differ, as those of ResNet."""

    width: int

    @nn.compact
    def __call__(self, x):
        y = nn.Dense(self.width)(nn.relu(nn.Dense(self.width)(x)))
        return nn.relu(y + (x if x.shape == y.shape else nn.Dense(self.width, name="skip")(x)))


class Sequence(nn.Module):
    """Layers one after the other, which are made outside: layers_0 to layers_n."""

    layers: tuple[nn.Module, ...]

    @nn.compact
    def __call__(self, image):
        x = image.reshape(len(image), -1)
        for layer in self.layers:
            x = layer(x)
        return x


def residual(classes: int = 10, widths: tuple[int, ...] = (512, 1024)):
    """A stem of a fixed width, and blocks: where these are narrower, the first one gets a connection."""
    return Sequence((nn.Dense(512), *map(Residual, widths), nn.Dense(classes)))
