"""Classes with several kernels in one: q, k and v; gate and up."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx


class Causal(nn.Module):
    """A language model with one Dense for q, k and v of all heads, and a GEGLU: logits (B, S, words)."""

    words: int
    width: int
    heads: int
    layers: int = 2
    rate: float = 0.1

    @nn.compact
    def __call__(self, ids, train: bool):
        embed = nn.Embed(self.words, self.width)
        x, (B, S), H = embed(ids), ids.shape, self.width // self.heads
        for _ in range(self.layers):
            qkv = nn.Dense(3 * self.width)(nn.LayerNorm()(x))
            q, k, v = (a.reshape(B, S, self.heads, H) for a in jnp.split(qkv, 3, axis=-1))
            mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(B, S, self.width)
            x += nn.Dropout(self.rate, deterministic=not train)(nn.Dense(self.width)(mixed))
            gate, up = jnp.split(nn.Dense(8 * self.width)(nn.LayerNorm()(x)), 2, axis=-1)
            x += nn.Dense(self.width)(nn.gelu(gate) * up)
        return embed.attend(nn.LayerNorm()(x))


class Block(nnx.Module):
    """A layer that is scanned and computed twice: one kernel for q, k and v, one for gate and up."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.out = nnx.Linear(width, width, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(width, 8 * width, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, use_bias=False, rngs=rngs)

    def __call__(self, x):
        B, S, D = x.shape
        qkv = self.qkv(self.norm(x)).reshape(B, S, 3, self.heads, D // self.heads)
        q, k, v = qkv.transpose(2, 0, 1, 3, 4)
        x = x + self.out(jax.nn.dot_product_attention(q, k, v).reshape(B, S, D))
        h = self.up(x)
        return x + self.down(jax.nn.silu(h[..., : 4 * D]) * h[..., 4 * D :])


class Patches(nnx.Module):
    """A classifier of patches, scanned over its layers, with a convolution of q and k: (B, classes)."""

    def __init__(self, width: int, heads: int, layers: int, classes: int, *, rngs: nnx.Rngs):
        self.first = nnx.Conv(3, width, (4, 4), strides=4, rngs=rngs)
        self.stats = nnx.BatchNorm(width, rngs=rngs)

        @nnx.split_rngs(splits=layers)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return Block(width, heads, rngs=rngs)

        self.blocks, self.layers = make(rngs), layers
        self.head = nnx.Linear(width, classes, rngs=rngs)

    def __call__(self, image):
        x = self.stats(self.first(image))
        x = x.reshape(x.shape[0], -1, x.shape[-1])

        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        @nnx.remat
        def run(block, x):
            return block(x)

        return self.head(run(self.blocks, x).mean(1))
