"""Experts, low ranks and state spaces: layers that are not plain attention and MLP."""

import jax
import jax.numpy as jnp
import numpy as np
from sharding.zoo import IDS, LARGE, B, D, F, H, N, S, V, norm, shapes
from sharding.zoo_text import attend, causal, joined

E, TOP, R, ROPE = 8, 2, D // 2, H // 2
STATE, RANK = (16, 64) if LARGE else (4, 6)
X = {"x": jax.ShapeDtypeStruct((B, S, D), jnp.float32)}


def embedded(body):
    """A model of a table, a layer and a head."""

    def forward(p, batch):
        x = p["t"][batch["ids"]]
        for w in p["l"]:
            x = x + body(w, norm(x, w["n"]))
        return x @ p["u"]

    return forward


def model(body, **layer):
    return (
        embedded(body),
        shapes(t=(V, D), u=(D, V)) | {"l": [shapes(n=(D,), **layer)]},
        IDS,
    )


def moe_dense(w, x):
    """Every expert on every token, weighted by the router's best two."""
    gate = jax.nn.softmax(x @ w["r"])
    best, _ = jax.lax.top_k(gate, TOP)
    gate = jnp.where(gate >= best[..., -1:], gate, 0.0)
    h = jax.nn.silu(jnp.einsum("bsd,edf->bsef", x, w["i"]))
    return jnp.einsum("bse,bsed->bsd", gate, jnp.einsum("bsef,efd->bsed", h, w["o"]))


def moe_chosen(w, x):
    """Every expert on every token, weighted by the numbers of the router's best two."""
    best, numbers = jax.lax.top_k(jax.nn.softmax(x @ w["r"]), TOP)
    gate = (jax.nn.one_hot(numbers, E) * best[..., None]).sum(-2)
    h = jax.nn.silu(jnp.einsum("bsd,edf->bsef", x, w["i"]))
    return jnp.einsum("bsef,efd->bsd", h * gate[..., None], w["o"])


def moe_capacity(w, x):
    """Tokens sent to slots of experts by a product with a one-hot array (E, slots)."""
    x_TD, slots = x.reshape(B * S, D), 2 * B * S // E
    gate = jax.nn.softmax(x_TD @ w["r"])
    chosen = jax.nn.one_hot(jnp.argmax(gate, -1), E)
    place = jnp.cumsum(chosen, 0) * chosen - 1
    sent = jax.nn.one_hot(place.astype(jnp.int32), slots) * chosen[..., None]
    sent = sent.astype(x.dtype)
    h = jax.nn.relu(jnp.einsum("ecd,edf->ecf", jnp.einsum("tec,td->ecd", sent, x_TD), w["i"]))
    out = jnp.einsum("ecf,efd->ecd", h, w["o"])
    return jnp.einsum("tec,ecd->td", sent * gate[..., None], out).reshape(B, S, D)


def moe_ragged(w, x):
    """Tokens sorted by expert, one ragged product per kernel."""
    x_TD = x.reshape(B * S, D)
    weights, experts = jax.lax.top_k(jax.nn.softmax(x_TD @ w["r"]), TOP)
    order = jnp.argsort(experts.reshape(-1))
    rows = jnp.repeat(x_TD, TOP, 0)[order]
    groups = jnp.bincount(experts.reshape(-1), length=E).astype(jnp.int32)
    h = jax.nn.silu(jax.lax.ragged_dot(rows, w["i"], groups))
    back = jax.lax.ragged_dot(h, w["o"], groups)[jnp.argsort(order)].reshape(B * S, TOP, D)
    return jnp.einsum("tkd,tk->td", back, weights).reshape(B, S, D)


def mla(w, x):
    """Queries, keys and values from low ranks; one rotary key for all heads."""
    q = (norm(x @ w["qa"], w["qn"]) @ w["qb"]).reshape(B, S, N, H + ROPE)
    low, rope = jnp.split(x @ w["kva"], [R], -1)
    k, v = jnp.split((norm(low, w["kn"]) @ w["kvb"]).reshape(B, S, N, 2 * H), 2, -1)
    rope = jnp.broadcast_to(rope[:, :, None], (B, S, N, ROPE))
    k = jnp.concatenate([k, rope], -1)
    scores = jnp.einsum("bqnh,bknh->bnqk", q, k) / 4 + causal()
    return joined(jnp.einsum("bnqk,bknh->bqnh", jax.nn.softmax(scores), v)) @ w["o"]


def mamba(w, x):
    """A selective state space; the recurrence by associative_scan."""
    return select(w, *jnp.split(x @ w["in"], 2, -1))


def select(w, u, z):
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


def lora(w, x):
    """Adapters of rank 4 beside the kernels of an attention and an MLP."""

    def heads(name):
        y = x @ w[name] + (x @ w[name + "a"]) @ w[name + "b"]
        return y.reshape(B, S, N, H)

    o = joined(attend(heads("q"), heads("k"), heads("v"), causal()))
    x = x + o @ w["o"] + (o @ w["oa"]) @ w["ob"]
    merged = w["i"] + w["ia"] @ w["ib"]
    return jax.nn.gelu(x @ merged) @ w["j"]


LORA = {name: (D, D) for name in "qkvo"} | {"i": (D, F), "j": (F, D), "ia": (D, 4), "ib": (4, F)}
LORA |= {name + "a": (D, 4) for name in "qkvo"} | {name + "b": (4, D) for name in "qkvo"}


def square(p, batch):
    """Residual layers whose kernels have the residual dim on both sides."""
    x = batch["x"]
    for w in p["k"]:
        x = x + jax.nn.gelu(x @ w)
    return x


def recurrent(p, batch):
    """A gated recurrent cell, scanned over time."""

    def step(h, x):
        gate = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"])
        return gate * h + (1 - gate) * jnp.tanh(x @ p["wh"] + h @ p["uh"]), h

    last, seen = jax.lax.scan(
        step, jnp.zeros((B, F), batch["x"].dtype), batch["x"].transpose(1, 0, 2)
    )
    return seen.mean(0) @ p["out"] + last @ p["out"]


MIXED = {
    "moe_dense": model(moe_dense, r=(D, E), i=(E, D, F), o=(E, F, D)),
    "moe_chosen": model(moe_chosen, r=(D, E), i=(E, D, F), o=(E, F, D)),
    "moe_capacity": model(moe_capacity, r=(D, E), i=(E, D, F), o=(E, F, D)),
    "moe_ragged": model(moe_ragged, r=(D, E), i=(E, D, F), o=(E, F, D)),
    "mla": model(
        mla,
        **{"qa": (D, R), "qn": (R,), "qb": (R, N * (H + ROPE)), "kva": (D, R + ROPE), "kn": (R,)},
        **{"kvb": (R, N * 2 * H), "o": (N * H, D)},
    ),
    "mamba": model(
        mamba,
        **{"in": (D, 2 * F), "c": (4, 1, F), "cb": (F,), "xp": (F, RANK + 2 * STATE)},
        **{"dt": (RANK, F), "dtb": (F,), "a": (F, STATE), "skip": (F,), "out": (F, D)},
    ),
    "lora": model(lora, **LORA),
    "square": (square, {"k": [jax.ShapeDtypeStruct((D, D), np.float32)] * 3}, X),
    "recurrent": (recurrent, shapes(wz=(D, F), uz=(F, F), wh=(D, F), uh=(F, F), out=(F, D)), X),
}
