"""Models of the zoo whose fused kernels keep their parts apart, as Megatron stores them.

A kernel (D, 3*F) of three parts side by side cannot be cut into runs of columns that each hold the
same share of every part; the kernel (D, 3, F) can.
"""

import jax
import jax.numpy as jnp
from sharding.zoo import IDS, D, F, H, L, N, norm, shapes
from sharding.zoo_mixed import MIXED, RANK, STATE, embedded
from sharding.zoo_text import FUSED, GPT2, GPT2_BLOCK, attend, causal, gpt2_ends, joined


def qkv(x, kernel, bias=0.0):
    """Three (B,S,N,H) of x (B,S,D) and a kernel (D,3,N,H)."""
    return jnp.moveaxis(jnp.einsum("bsd,dcnh->bscnh", x, kernel) + bias, 2, 0)


def halves(x, kernel):
    """Two (B,S,F) of x (B,S,D) and a kernel (D,2,F)."""
    return jnp.moveaxis(jnp.einsum("bsd,dcf->bscf", x, kernel), 2, 0)


def gpt2_block(w, x):
    o = joined(attend(*qkv(norm(x, w["n"]), w["qkv"], w["qkv_b"]), causal()))
    x = x + o @ w["proj"] + w["proj_b"]
    return x + jax.nn.gelu(norm(x, w["n"]) @ w["fc"] + w["fc_b"]) @ w["out"]


def gpt2(p, batch):
    def body(x):
        for w in p["h"]:
            x = gpt2_block(w, x)
        return x

    return gpt2_ends(p, batch["ids"], body)


def fused(p, batch):
    x = p["t"][batch["ids"]]
    x = x + joined(attend(*qkv(x, p["qkv"]), causal())) @ p["o"]
    gate, up = halves(x, p["gu"])
    return x + (jax.nn.silu(gate) * up) @ p["dn"]


def mamba(w, x):
    u, z = halves(x, w["in"])
    u = jax.lax.conv_general_dilated(
        u, w["c"], (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=F
    )
    u = jax.nn.silu(u + w["cb"])
    step, into, out = jnp.split(u @ w["xp"], [RANK, RANK + STATE], -1)
    step = jax.nn.softplus(step @ w["dt"] + w["dtb"])
    decay = jnp.exp(step[..., None] * -jnp.exp(w["a"]))
    value = (step * u)[..., None] * into[:, :, None]
    _, h = jax.lax.associative_scan(
        lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, value), axis=1
    )
    y = jnp.einsum("bsfn,bsn->bsf", h, out) + u * w["skip"]
    return (y * jax.nn.silu(z)) @ w["out"]


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
