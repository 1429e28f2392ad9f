"""Language models, oddly named and laid out. Shapes as in zoo.py; K kv heads."""

import jax
import jax.numpy as jnp
import numpy as np
from sharding.zoo import IDS, B, D, F, H, L, N, S, V, norm, shapes

K, ROWS, BUCKETS = N // 2, 2050, 8
CAUSAL = np.tril(np.ones((S, S), bool))


def attend(q, k, v, bias=0.0):
    """q (B,S,N,H); k, v (B,T,N,H); bias adds to the scores (B,N,S,T)."""
    scores = jnp.einsum("bqnh,bknh->bnqk", q, k) / np.sqrt(H) + bias
    return jnp.einsum("bnqk,bknh->bqnh", jax.nn.softmax(scores).astype(v.dtype), v)


def heads(x, n=N):
    return x.reshape(*x.shape[:2], n, H)


def joined(x):
    return x.reshape(*x.shape[:2], -1)


def rotate(x):
    """Rotary positions, halves of the head dim paired."""
    angle = np.arange(S)[:, None, None] / 100 ** (np.arange(H // 2) / (H // 2))
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def causal():
    return jnp.where(CAUSAL, 0.0, -1e9)


# BERT: post-norm, three tables, a pooler and a tied head over the vocabulary.
def encoder(p, batch):
    kinds = batch["ids"] % 2
    x = p["w0"][batch["ids"]] + p["w1"][kinds] + p["w2"][:S]
    x = norm(x, p["g0"])
    for w in p["stack"]:
        q, k, v = (heads(x @ w[a] + w[b]) for a, b in (("m1", "c1"), ("m2", "c2"), ("m3", "c3")))
        x = norm(x + joined(attend(q, k, v)) @ w["m4"] + w["c4"], w["g1"])
        x = norm(x + jax.nn.gelu(x @ w["m5"] + w["c5"]) @ w["m6"] + w["c6"], w["g2"])
    pooled = jnp.tanh(x[:, 0] @ p["pool"]) @ p["classes"]
    return jnp.mean(jax.nn.gelu(x @ p["t"]) @ p["w0"].T + p["tb"]) + pooled


ENCODER = shapes(w0=(V, D), w1=(2, D), w2=(2 * S, D), g0=(D,), pool=(D, D), classes=(D, 2))
ENCODER |= shapes(t=(D, D), tb=(V,))
ENCODER_LAYER = shapes(
    **{**dict.fromkeys(("m1", "m2", "m3", "m4"), (D, D)), "m5": (D, F), "m6": (F, D)},
    **{**dict.fromkeys(("c1", "c2", "c3", "c4", "c6", "g1", "g2"), (D,)), "c5": (F,)},
)


# T5: relative positions, cross attention, one shared table.
def relative(table):
    distance = np.clip(np.arange(S)[:, None] - np.arange(S)[None, :] + BUCKETS // 2, 0, BUCKETS - 1)
    return table[distance].transpose(2, 0, 1)[None]


def t5_attention(w, x, memory, bias):
    q, k, v = heads(x @ w["a"]), heads(memory @ w["b"]), heads(memory @ w["c"])
    return joined(attend(q, k, v, bias)) @ w["d"]


def encoder_decoder(p, batch):
    x = y = p["both"][batch["ids"]]
    for w in p["left"]:
        h = norm(x, w["n"])
        x = x + t5_attention(w, h, h, relative(p["far"]))
        x = x + jax.nn.relu(norm(x, w["n"]) @ w["wi"]) @ w["wo"]
    for w in p["right"]:
        h = norm(y, w["n"])
        y = y + t5_attention(w, h, h, relative(p["near"]) + causal())
        y = y + t5_attention(w["x"], norm(y, w["n"]), x, 0.0)
        y = y + jax.nn.relu(norm(y, w["n"]) @ w["wi"]) @ w["wo"]
    return y @ p["both"].T


T5_ATTENTION = shapes(a=(D, D), b=(D, D), c=(D, D), d=(D, D))
T5_LAYER = T5_ATTENTION | shapes(n=(D,), wi=(D, F), wo=(F, D))


# GPT-2: q, k and v in one kernel; OPT's table of 2050 positions, looked up by the batch.
def gpt2_block(w, x):
    q, k, v = jnp.split(norm(x, w["n"]) @ w["qkv"] + w["qkv_b"], 3, -1)
    return gpt2_rest(w, x, heads(q), heads(k), heads(v))


def gpt2_rest(w, x, q, k, v):
    x = x + joined(attend(q, k, v, causal())) @ w["proj"] + w["proj_b"]
    return x + jax.nn.gelu(norm(x, w["n"]) @ w["fc"] + w["fc_b"]) @ w["out"]


def gpt2_ends(p, ids, body):
    x = p["wte"][ids] + p["wpe"][jnp.cumsum(ids > 3, -1) + 2]
    return norm(body(x), p["n"]) @ p["wte"].T


def gpt2(p, batch):
    def body(x):
        return jax.lax.scan(lambda x, w: (jax.checkpoint(gpt2_block)(w, x), None), x, p["h"])[0]

    return gpt2_ends(p, batch["ids"], body)


def gpt2_unrolled(p, batch, block=gpt2_block):
    def body(x):
        for w in p["h"]:
            x = block(w, x)
        return x

    return gpt2_ends(p, batch["ids"], body)


GPT2_BLOCK = {
    **{"n": (D,), "qkv": (D, 3 * D), "qkv_b": (3 * D,), "proj": (D, D), "proj_b": (D,)},
    **{"fc": (D, F), "fc_b": (F,), "out": (F, D)},
}
GPT2 = shapes(wte=(V, D), wpe=(ROWS, D), n=(D,))


# LLaMA with fewer kv heads and torch's kernels, (out, in); rotary, gated, untied.
def llama(p, batch):
    x = p["t"][batch["ids"]]
    for w in p["l"]:
        h = norm(x, w["n"])
        kv = w["2"].shape[0] // H
        q, k, v = heads(h @ w["1"].T), heads(h @ w["2"].T, kv), heads(h @ w["3"].T, kv)
        k, v = (jnp.repeat(y, N // kv, 2) for y in (rotate(k), v))
        x = x + joined(attend(rotate(q), k, v, causal())) @ w["4"].T
        h = norm(x, w["n"])
        x = x + (jax.nn.silu(h @ w["5"].T) * (h @ w["6"].T)) @ w["7"].T
    return x @ p["u"].T


LLAMA_LAYER = {
    **{"n": (D,), "1": (N * H, D), "2": (K * H, D), "3": (K * H, D), "4": (D, N * H)},
    **{"5": (F, D), "6": (F, D), "7": (D, F)},
}


# Fused q, k, v folded to (3, N, H); gate and up in one kernel.
def fused(p, batch):
    x = p["t"][batch["ids"]]
    q, k, v = (x @ p["qkv"]).reshape(B, S, 3, N, H).transpose(2, 0, 1, 3, 4)
    x = x + joined(attend(q, k, v, causal())) @ p["o"]
    h = x @ p["gu"]
    return x + (jax.nn.silu(h[..., :F]) * h[..., F:]) @ p["dn"]


# BLOOM: fused by heads, (N, 3, H), so that a run of columns is whole heads; ALiBi.
def alibi(p, batch):
    x = p["t"][batch["ids"]]
    q, k, v = jnp.moveaxis((x @ p["qkv"] + p["b"]).reshape(B, S, N, 3, H), 3, 0)
    slopes = 2.0 ** -np.arange(1, N + 1)
    distance = np.arange(S)[None, :] - np.arange(S)[:, None]
    x = x + joined(attend(q, k, v, slopes[:, None, None] * distance + causal())) @ p["o"]
    return x + jax.nn.gelu(x @ p["up"]) @ p["dn"]


FUSED = shapes(t=(V, D), qkv=(D, 3 * D), o=(D, D), gu=(D, 2 * F), dn=(F, D))
ALIBI = shapes(t=(V, D), qkv=(D, 3 * D), b=(3 * D,), o=(D, D), up=(D, F), dn=(F, D))

TEXT = {
    "encoder": (encoder, ENCODER | {"stack": [ENCODER_LAYER] * 2}, IDS),
    "encoder_decoder": (
        encoder_decoder,
        shapes(both=(V, D), far=(BUCKETS, N), near=(BUCKETS, N))
        | {"left": [T5_LAYER], "right": [T5_LAYER | {"x": T5_ATTENTION}]},
        IDS,
    ),
    "gpt2": (gpt2, GPT2 | {"h": shapes(**{k: (L, *s) for k, s in GPT2_BLOCK.items()})}, IDS),
    "gpt2_unrolled": (gpt2_unrolled, GPT2 | {"h": [shapes(**GPT2_BLOCK) for _ in range(L)]}, IDS),
    "llama": (llama, shapes(t=(V, D), u=(V, D)) | {"l": [shapes(**LLAMA_LAYER)] * 2}, IDS),
    "fused": (fused, FUSED, IDS),
    "alibi": (alibi, ALIBI, IDS),
}
