# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""GPT of ../net.py, printed from PyTorch 2.13.0: names of parts and variables are its own."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from my_project.runtime.nn.attention import attention
from my_project.runtime.nn.dropout import Dropout
from my_project.runtime.nn.layers import over_layers
from my_project.runtime.nn.uniform import Linear


@dataclasses.dataclass(frozen=True)
class GPTConfig:
    """Sizes of the model; the defaults are those that it was asked for with."""

    positions: int = 64
    words: int = 256
    width: int = 64
    heads: int = 4
    layers: int = 4
    dtype: str = "float32"
    remat: str = "fit"


class GPT(nnx.Module):
    """GPT, as its arguments are in GPTConfig."""

    def __init__(self, config: GPTConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.dtype = config.dtype
        self.wte = nnx.Embed(
            config.words, config.width, embedding_init=nnx.initializers.normal(1.0), rngs=rngs
        )
        self.wpe = nnx.Embed(
            config.positions, config.width, embedding_init=nnx.initializers.normal(1.0), rngs=rngs
        )
        create = nnx.vmap(
            lambda rngs: Block(config.width, config.heads, dtype=config.dtype, rngs=rngs)
        )
        self.blocks = nnx.split_rngs(splits=config.layers)(create)(rngs)
        self.ln = nnx.LayerNorm(config.width, epsilon=1e-05, dtype=config.dtype, rngs=rngs)

    def __call__(self, ids: jax.Array):
        S = ids.shape[1]
        x = self.wte(ids).astype(self.dtype) + self.wpe(jnp.arange(S)).astype(self.dtype)

        @over_layers(self.config.remat)
        def run(block, x):
            return block(x)

        x = run(self.blocks, x)
        return self.ln(x) @ self.wte.embedding[...].astype(self.dtype).T


class Block(nnx.Module):
    """net.py:23."""

    def __init__(self, width, heads, dtype, *, rngs: nnx.Rngs):
        self.ln_1 = nnx.LayerNorm(width, epsilon=1e-05, dtype=dtype, rngs=rngs)
        self.attn = Attention(width, heads, dtype=dtype, rngs=rngs)
        self.ln_2 = nnx.LayerNorm(width, epsilon=1e-05, dtype=dtype, rngs=rngs)
        self.up = Linear(width, 4 * width, dtype=dtype, rngs=rngs)
        self.down = Linear(4 * width, width, dtype=dtype, rngs=rngs)
        self.dropout = Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.down(jax.nn.gelu(self.up(self.ln_2(x)), approximate=False)))


class Attention(nnx.Module):
    """net.py:8."""

    def __init__(self, width, heads, dtype, *, rngs: nnx.Rngs):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, dtype=dtype, rngs=rngs)
        self.out = Linear(width, width, dtype=dtype, rngs=rngs)

    def __call__(self, x):
        B, S, D = x.shape
        q, k, v = jnp.split(self.qkv(x), 3, axis=2)
        q = q.reshape(B, S, self.heads, -1)
        k = k.reshape(B, S, self.heads, -1)
        v = v.reshape(B, S, self.heads, -1)
        y = attention(q, k, v, causal=True)
        return self.out(y.reshape(B, S, D))
