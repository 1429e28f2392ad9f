"""Small models as plain functions, oddly named and laid out: what the engine must see through.

Each entry: (forward, params, batch). Shapes: B 4, S 8, D 32, F 64, N 4 heads of H 8, V 84, L 2.
"""

import jax
import jax.numpy as jnp

B, S, D, F, N, H, V, L = 4, 8, 32, 64, 4, 8, 84, 2
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
        shapes(t=(V, D), p=(16, D), x=(D, N, H), y=(D, N, H), z=(D, N, H), w=(N, H, D)),
        IDS,
    ),
}
