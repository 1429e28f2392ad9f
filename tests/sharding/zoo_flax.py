"""The same kinds of models from Flax, Linen and NNX: their trees and their own attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx
from sharding.zoo import IDS, B, D, F, N, S, V


class LinenBlock(nn.Module):
    @nn.compact
    def __call__(self, x_BSD, _):
        h = nn.LayerNorm()(x_BSD)
        x_BSD = x_BSD + nn.MultiHeadDotProductAttention(num_heads=N)(
            h, mask=nn.make_causal_mask(h[..., 0])
        )
        h = nn.Dense(F)(nn.LayerNorm()(x_BSD))
        return x_BSD + nn.Dense(D)(nn.gelu(h)), None


class Linen(nn.Module):
    @nn.compact
    def __call__(self, ids_BS):
        table = nn.Embed(V, D)
        x = table(ids_BS)
        stack = nn.scan(
            nn.remat(LinenBlock, prevent_cse=False),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=2,
        )
        x, _ = stack()(x, None)
        return table.attend(x)


class NnxBlock(nnx.Module):
    def __init__(self, *, rngs):
        self.one = nnx.RMSNorm(D, rngs=rngs)
        self.two = nnx.MultiHeadAttention(N, D, D, decode=False, rngs=rngs)
        self.gate = nnx.LinearGeneral(D, (2, F), rngs=rngs)
        self.back = nnx.Linear(F, D, rngs=rngs)

    def __call__(self, x_BSD):
        x_BSD = x_BSD + self.two(self.one(x_BSD))
        gate, up = jnp.unstack(self.gate(x_BSD), axis=-2)
        return x_BSD + self.back(nnx.silu(gate) * up)


class Nnx(nnx.Module):
    def __init__(self, *, rngs):
        self.table = nnx.Embed(V, D, rngs=rngs)
        self.blocks = nnx.List([NnxBlock(rngs=rngs) for _ in range(2)])
        self.head = nnx.Linear(D, V, rngs=rngs)

    def __call__(self, ids_BS):
        x = self.table(ids_BS)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def linen():
    ids = jnp.zeros((B, S), jnp.int32)
    params = jax.eval_shape(Linen().init, jax.random.key(0), ids)["params"]
    return lambda p, batch: Linen().apply({"params": p}, batch["ids"]), params, IDS


def nnx_model():
    graph, params, rest = nnx.split(nnx.eval_shape(lambda: Nnx(rngs=nnx.Rngs(0))), nnx.Param, ...)
    params = nnx.to_pure_dict(params)
    return lambda p, batch: nnx.merge(graph, p, rest)(batch["ids"]), params, IDS


FLAX = {"linen": linen(), "nnx": nnx_model()}
