"""Classes as users write them, at the sizes that they train: their preset tiny is smaller."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax import nnx


class Deep(nn.Module):
    """A decoder with layers of its own each, and learned positions: logits (B, S, words)."""

    words: int = 32000
    width: int = 512
    layers: int = 12
    heads: int = 8
    longest: int = 512

    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(self.words, self.width)(ids)
        x += nn.Embed(self.longest, self.width)(jnp.arange(ids.shape[1]))
        for _ in range(self.layers):
            attend = nn.MultiHeadDotProductAttention(self.heads)
            x += attend(nn.LayerNorm()(x), mask=nn.make_causal_mask(ids))
            x += nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x))))
        return nn.Dense(self.words)(x)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Those of Fused. The last one is no size."""

    vocab_size: int = 50257
    n_layer: int = 6
    n_head: int = 12
    n_embd: int = 768
    head_dim: int = 64
    bos_token_id: int = 50256

    def __post_init__(self) -> None:
        """Check that the heads are as wide as the model, together."""
        if self.n_head * self.head_dim != self.n_embd:
            raise ValueError(f"{self.n_head} heads of {self.head_dim} do not make {self.n_embd}")


class Fused(nnx.Module):
    """A decoder with q, k and v in one kernel, made of a dataclass."""

    def __init__(self, config: Sizes, *, rngs: nnx.Rngs):
        self.embed = nnx.Embed(config.vocab_size, config.n_embd, rngs=rngs)
        self.qkv, self.out = nnx.List(), nnx.List()
        for _ in range(config.n_layer):
            self.qkv.append(nnx.Linear(config.n_embd, 3 * config.n_embd, rngs=rngs))
            self.out.append(nnx.Linear(config.n_embd, config.n_embd, rngs=rngs))
        self.heads = config.n_head

    def __call__(self, ids):
        x = self.embed(ids)
        for qkv, out in zip(self.qkv, self.out, strict=True):
            parts = jnp.split(qkv(x), 3, axis=-1)
            heads = [part.reshape(*x.shape[:2], self.heads, -1) for part in parts]
            x += out(jax.nn.dot_product_attention(*heads, is_causal=True).reshape(x.shape))
        return self.embed.attend(x)


def fused():
    """The arguments of Fused, and a batch."""
    return {"config": Sizes()}, {"ids": np.zeros((1, 32), np.int32)}


class Headed(nnx.Module):
    """Numbers (B, D) through projections whose heads are a dim of their own: (N, D, H) and (N, H, D)."""

    def __init__(self, heads: int = 8, depth: int = 2, *, rngs: nnx.Rngs):
        into, out = ((heads, 512, 128), (heads, 128, 512))
        make = jax.nn.initializers.normal(0.02)
        self.ins = nnx.List([nnx.Param(make(rngs.params(), into)) for _ in range(depth)])
        self.outs = nnx.List([nnx.Param(make(rngs.params(), out)) for _ in range(depth)])

    def __call__(self, x):
        for into, out in zip(self.ins, self.outs, strict=True):
            x += jnp.einsum("bnh,nhd->bd", jnp.einsum("bd,ndh->bnh", x, into), out)
        return x


class Wide(nnx.Module):
    """An image classifier of stages: logits (B, classes)."""

    def __init__(self, widths=(64, 128, 512), depths=(1, 2, 3), classes=1000, *, rngs: nnx.Rngs):
        self.layers, before = nnx.List(), 3
        for width, depth in zip(widths, depths, strict=True):
            for number in range(depth):
                strides = 1 if number else 2
                conv = nnx.Conv(before, width, (3, 3), strides=strides, rngs=rngs)
                self.layers.append(conv)
                before = width
        self.head = nnx.Linear(before, classes, rngs=rngs)

    def __call__(self, image):
        for layer in self.layers:
            image = nnx.relu(layer(image))
        return self.head(image.mean((1, 2)))


def wide(tiny=False):
    """The arguments of Wide, and a batch."""
    sizes = {"widths": (8, 16, 32)} if tiny else {}
    return sizes, {"image": np.zeros((1, 64, 64, 3), np.float32)}


class Stack(nnx.Module):
    """More layers than any width is: numbers (B, D) through them all."""

    def __init__(self, width: int = 96, layers: int = 300, *, rngs: nnx.Rngs):
        make = jax.nn.initializers.normal(0.02)
        self.layers = nnx.List([nnx.Param(make(rngs(), (width, width))) for _ in range(layers)])

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.relu(x @ layer)
        return x
