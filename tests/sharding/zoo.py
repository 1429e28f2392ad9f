"""Small models as plain functions, oddly named and laid out: what the engine must see through.

Each entry: (forward, params, batch). Batch B, sequence S, width D, inner width F, N heads of H,
vocabulary V, layers L. With REDCO_ZOO=large in the environment the sizes are those of a small
GPT-2, at which a compiler chooses as it does for real models.
"""

import os

import jax
import jax.numpy as jnp

LARGE = os.environ.get("REDCO_ZOO") == "large"
B, S, D, F = (4, 512, 1024, 4096) if LARGE else (4, 8, 32, 64)
N, H, V, L = (16, 64, 16384, 2) if LARGE else (4, 8, 84, 2)
IDS = {"ids": jax.ShapeDtypeStruct((B, S), jnp.int32)}
X = {"x": jax.ShapeDtypeStruct((B, D), jnp.float32)}


def shapes(**named):
    """ShapeDtypeStructs of float32 arrays."""
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in named.items()}


def norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def attend(q, k, v):
    scores = jnp.einsum("bqnh,bknh->bnqk", q, k) / jnp.sqrt(1.0 * H)
    seen = jnp.arange(S)[:, None] >= jnp.arange(S)[None, :]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9))
    return jnp.einsum("bnqk,bknh->bqnh", weights, v)


def heads(x):
    return x.reshape(B, S, N, H)


def block(w, x):
    h = norm(x, w["scale"])
    o = attend(heads(h @ w["q"]), heads(h @ w["k"]), heads(h @ w["v"])).reshape(B, S, D)
    x = x + o @ w["o"] + w["o_bias"]
    return x + jax.nn.gelu(h @ w["up"] + w["up_bias"]) @ w["down"]


BLOCK = {
    **{"scale": (D,), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D), "o_bias": (D,)},
    **{"up": (D, F), "up_bias": (F,), "down": (F, D)},
}
DECODER = shapes(table=(V, D), head=(D, V)) | {"final": shapes(scale=(D,))["scale"]}


def scanned(params, batch):
    x = params["table"][batch["ids"]]
    x, _ = jax.lax.scan(lambda x, w: (block(w, x), None), x, params["layers"])
    return norm(x, params["final"]) @ params["head"]


def unrolled(params, batch):
    x = params["table"][batch["ids"]]
    for w in params["layers"]:
        x = jax.checkpoint(block)(w, x)
    return norm(x, params["final"]) @ params["head"]


def mlp(params, batch):
    return jax.nn.relu(batch["x"] @ params["a"] + params["b"]) @ params["c"]


def transposed(params, batch):
    """Kernels as torch keeps them: (out, in)."""
    return jax.nn.relu(batch["x"] @ params["a"].T + params["b"]) @ params["c"].T


def dense_general(params, batch):
    """Kernels with the heads as dims of their own, tied embeddings, learned positions."""
    x = params["t"][batch["ids"]] + params["p"][jnp.cumsum(batch["ids"] > 0, -1)]
    q, k, v = (jnp.einsum("bsd,dnh->bsnh", x, params[name]) for name in "xyz")
    x = x + jnp.einsum("bsnh,nhd->bsd", attend(q, k, v), params["w"])
    return x @ params["t"].T


ZOO = {
    "mlp": (mlp, shapes(a=(D, F), b=(F,), c=(F, D)), X),
    "transposed": (transposed, shapes(a=(F, D), b=(F,), c=(D, F)), X),
    "scanned": (
        scanned,
        DECODER | {"layers": shapes(**{k: (L, *s) for k, s in BLOCK.items()})},
        IDS,
    ),
    "unrolled": (unrolled, DECODER | {"layers": [shapes(**BLOCK) for _ in range(L)]}, IDS),
    "dense_general": (
        dense_general,
        shapes(t=(V, D), p=(2 * S, D), x=(D, N, H), y=(D, N, H), z=(D, N, H), w=(N, H, D)),
        IDS,
    ),
}
