"""Models of the zoo whose fused kernels keep their parts apart, as Megatron stores them.

A kernel (D, 3*F) of three parts side by side cannot be cut into runs of columns that each hold the
same share of every part; the kernel (D, 3, F) can.
"""

import jax
import jax.numpy as jnp
from sharding.zoo import IDS, D, F, H, L, N, norm, shapes
from sharding.zoo_mixed import MIXED, embedded, select
from sharding.zoo_text import (
    FUSED,
    GPT2,
    GPT2_BLOCK,
    attend,
    causal,
    gpt2_rest,
    gpt2_unrolled,
    joined,
)


def qkv(x, kernel, bias=0.0):
    """Three (B,S,N,H) of x (B,S,D) and a kernel (D,3,N,H)."""
    return jnp.moveaxis(jnp.einsum("bsd,dcnh->bscnh", x, kernel) + bias, 2, 0)


def halves(x, kernel):
    """Two (B,S,F) of x (B,S,D) and a kernel (D,2,F)."""
    return jnp.moveaxis(jnp.einsum("bsd,dcf->bscf", x, kernel), 2, 0)


def gpt2_block(w, x):
    return gpt2_rest(w, x, *qkv(norm(x, w["n"]), w["qkv"], w["qkv_b"]))


def gpt2(p, batch):
    return gpt2_unrolled(p, batch, gpt2_block)


def fused(p, batch):
    x = p["t"][batch["ids"]]
    x = x + joined(attend(*qkv(x, p["qkv"]), causal())) @ p["o"]
    gate, up = halves(x, p["gu"])
    return x + (jax.nn.silu(gate) * up) @ p["dn"]


def mamba(w, x):
    return select(w, *halves(x, w["in"]))


PARTS = {"qkv": (D, 3, N, H), "qkv_b": (3, N, H)}
MAMBA = MIXED["mamba"][1]
(MAMBA_LAYER,) = MAMBA["l"]

APART = {
    "gpt2_apart": (gpt2, GPT2 | {"h": [shapes(**GPT2_BLOCK | PARTS)] * L}, IDS),
    "fused_apart": (fused, FUSED | shapes(qkv=PARTS["qkv"], gu=(D, 2, F)), IDS),
    "mamba_apart": (
        embedded(mamba),
        MAMBA | {"l": [MAMBA_LAYER | shapes(**{"in": (D, 2, F)})]},
        IDS,
    ),
}
