"""The blocks that random models are made of; each draws its own variant. See programs.py."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sharding.programs import B, Block, Maker, S

ACTIVATIONS = (jax.nn.relu, jax.nn.gelu, jnp.tanh, jax.nn.silu)
INNER = (4, 6, 8, 12, 16, 39)


def normed(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-3)


def mlp(make: Maker, D: int) -> Block:
    """With or without biases; gated, the gate a kernel of its own or fused with the other."""
    F, act = make.pick(*INNER), make.pick(*ACTIVATIONS)
    gate = make.pick("no", "own", "halves", "pairs", "stacked")
    width = 2 * F if gate in ("halves", "pairs") else F
    i = make.weight(D, 2, F) if gate == "stacked" else make.weight(D, width)
    o = make.weight(F, D)
    b = make.weight(width) if gate != "stacked" and make.pick(True, False) else None
    g = make.weight(D, F) if gate == "own" else None

    def run(w, x, _):
        if gate == "stacked":
            up, h = jnp.unstack(jnp.einsum("bsd,dgf->bsgf", x, w[i]), axis=2)
            return (act(up) * h) @ w[o]
        h = x @ w[i] + (0 if b is None else w[b])
        if gate == "halves":
            up, h = jnp.split(h, 2, -1)
            return (act(up) * h) @ w[o]
        if gate == "pairs":
            h = h.reshape(*h.shape[:-1], F, 2)
            return (act(h[..., 0]) * h[..., 1]) @ w[o]
        return (act(h) * (x @ w[g]) if gate == "own" else act(h)) @ w[o]

    return run


def rotated(x):
    a, b = jnp.split(x, 2, -1)
    angle = np.arange(x.shape[1])[:, None, None] / 7.0
    return jnp.concatenate([a * np.cos(angle) - b * np.sin(angle), b + a * np.sin(angle)], -1)


FUSED = ("thirds", "by heads", "folded")
UNEQUAL = ("unequal", "unequal heads")


def attention(make: Maker, D: int) -> Block:
    """Any number of heads; kernels flat, with dims for heads, or fused in five ways."""
    N, H = make.pick(1, 2, 3, 4, 6, 8), make.pick(2, 4)
    kind = make.pick("flat", "general", *FUSED, *UNEQUAL)
    K = N if kind in FUSED else make.pick(*(k for k in range(1, N + 1) if N % k == 0))
    attend = make.pick(attend_in_groups, attend_repeated, attend_in_rows)
    rotary, causal, crossed = (make.pick(True, False) for _ in range(3))
    kernels = {
        "general": [(D, N, H), (D, K, H), (D, K, H)],
        "flat": [(D, N * H), (D, K * H), (D, K * H)],
        **dict.fromkeys(UNEQUAL, [(D, (N + 2 * K) * H)]),
    }.get(kind, [(D, 3 * N * H)])
    indices = [make.weight(*shape) for shape in kernels]
    o = make.weight(N, H, D) if kind == "general" else make.weight(N * H, D)

    def run(w, x, memory):
        m = memory if crossed else x
        q, k, v = project([w[i] for i in indices], (x, m, m), kind, N, K, H)
        if rotary:
            q, k = rotated(q), rotated(k)
        y = attend(q, k, v, causal)
        return jnp.einsum("bqnh,nhd->bqd", y, w[o]) if kind == "general" else joined_heads(y) @ w[o]

    return run


def project(kernels, inputs, kind, N, K, H):
    """q (B,S,N,H); k and v (B,S,K,H)."""
    if kind == "flat":
        return ((y @ w).reshape(B, S, -1, H) for w, y in zip(kernels, inputs, strict=True))
    if kind == "general":
        return (jnp.einsum("bsd,dnh->bsnh", y, w) for w, y in zip(kernels, inputs, strict=True))
    y = inputs[0] @ kernels[0]
    if kind == "thirds":
        return (part.reshape(B, S, N, H) for part in jnp.split(y, 3, -1))
    if kind == "unequal":
        return (part.reshape(B, S, -1, H) for part in jnp.split(y, [N * H, (N + K) * H], -1))
    if kind == "unequal heads":
        y = y.reshape(B, S, -1, H)
        return y[:, :, :N], y[:, :, N : N + K], y[:, :, N + K :]
    if kind == "by heads":
        return jnp.moveaxis(y.reshape(B, S, N, 3, H), 3, 0)
    return y.reshape(B, S, 3, N, H).transpose(2, 0, 1, 3, 4)


def softmax(scores, causal):
    seen = np.tril(np.ones((S, S), bool))
    return jax.nn.softmax(jnp.where(seen, scores, -1e9) if causal else scores)


def attend_in_groups(q, k, v, causal):
    """The heads that share a kv head are a dim of their own."""
    folded = q.reshape(B, S, k.shape[2], -1, q.shape[3])
    weights = softmax(jnp.einsum("bqkgh,btkh->bkgqt", folded, k), causal)
    return jnp.einsum("bkgqt,btkh->bqkgh", weights, v).reshape(q.shape)


def attend_repeated(q, k, v, causal):
    k, v = (jnp.repeat(y, q.shape[2] // k.shape[2], 2) for y in (k, v))
    return jnp.einsum("bnqt,btnh->bqnh", softmax(jnp.einsum("bqnh,btnh->bnqt", q, k), causal), v)


def attend_in_rows(q, k, v, causal):
    """The heads are merged with the rows of the batch."""
    k, v = (jnp.repeat(y, q.shape[2] // k.shape[2], 2) for y in (k, v))
    q, k, v = (y.transpose(0, 2, 1, 3).reshape(-1, S, y.shape[3]) for y in (q, k, v))
    y = jnp.einsum("nqt,nth->nqh", softmax(jnp.einsum("nqh,nth->nqt", q, k), causal), v)
    return y.reshape(B, -1, *y.shape[1:]).transpose(0, 2, 1, 3)


def joined_heads(y):
    return y.reshape(B, S, -1)


def norm(make: Maker, D: int) -> Block:
    scale, shift = make.weight(D), make.weight(D) if make.pick(True, False) else None
    groups = make.pick(*(g for g in (1, 2, 4) if D % g == 0))

    def run(w, x, _):
        x = normed(x.reshape(B, S, groups, -1)).reshape(x.shape) * w[scale]
        return x if shift is None else jax.nn.standardize(x, epsilon=1e-3) + w[shift]

    return run


def linear(make: Maker, D: int) -> Block:
    """One square kernel, or two of low rank, or both."""
    kind, R = make.pick("square", "low rank", "adapter"), make.pick(2, 3, 4)
    square = make.weight(D, D) if kind != "low rank" else None
    low = (make.weight(D, R), make.weight(R, D)) if kind != "square" else ()

    def run(w, x, _):
        y = 0 if square is None else x @ w[square]
        return y + functools.reduce(lambda h, i: h @ w[i], low, x) if low else y

    return run


def joined(make: Maker, D: int) -> Block:
    """Two values side by side, then one kernel."""
    a, first = make.weight(2 * D, D), make.pick(True, False)

    def run(w, x, memory):
        if first:
            return jnp.concatenate([x, memory], -1) @ w[a]
        both = jnp.concatenate([x, memory], 1)[:, ::2]
        return both @ w[a][:D] + x @ w[a][D:]

    return run


def mixer(make: Maker, D: int) -> Block:
    """A kernel over the sequence."""
    T = make.pick(4, 8, 12)
    a, b = make.weight(S, T), make.weight(T, S)
    return lambda w, x, _: (jax.nn.gelu(x.swapaxes(1, 2) @ w[a]) @ w[b]).swapaxes(1, 2)


def convolution(make: Maker, D: int) -> Block:
    """Over the sequence: full, depthwise, or there and back through another width."""
    kinds = ("full", "bottleneck", "depthwise") if make.grouped else ("full", "bottleneck")
    kind, F = make.pick(*kinds), make.pick(*INNER)
    shapes = {
        "full": [(3, D, D)],
        "depthwise": [(3, 1, D)],
        "bottleneck": [(3, D, F), (1, F, D)],
    }
    kernels = [make.weight(*shape) for shape in shapes[kind]]

    def run(w, x, _):
        for i in kernels:
            x = jax.nn.relu(convolve(x, w[i], D if kind == "depthwise" else 1))
        return x

    return run


def convolve(x, kernel, groups):
    """(B,S,O) of (B,S,I) and a kernel of three places."""
    numbers = {"dimension_numbers": ("NWC", "WIO", "NWC"), "feature_group_count": groups}
    return jax.lax.conv_general_dilated(x, kernel, (1,), "SAME", **numbers)


def channels(make: Maker, D: int) -> Block:
    """Two large parts and a small one of one kernel; two of them through a convolution together."""
    F, few, cut = make.pick(*INNER), make.pick(2, 3), make.pick(True, False)
    sizes, width = [F, 2 * F, 2 * F + few], F + few
    i, o, mix = make.weight(D, 2 * F + few), make.weight(F, D), make.weight(few, F)
    kernel = make.weight(3, 1, width) if make.grouped else make.weight(width)

    def run(w, x, _):
        h = x @ w[i]
        if cut:
            a, b, c = (h[..., n:m] for n, m in zip([0, *sizes], sizes, strict=False))
            both = jnp.concatenate([b, c], -1)
        else:
            a, both = h[..., :F], h[..., F:]
        both = convolve(both, w[kernel], width) if make.grouped else both * w[kernel]
        b, c = jnp.split(jax.nn.relu(both), [F], -1)
        return (jnp.tanh(a) * b + c @ w[mix]) @ w[o]

    return run


def looped_experts(make: Maker, D: int) -> Block:
    """One expert after the other, their kernels in one array or in many, weighted by a gate."""
    E, F, biased, stacked = (
        make.pick(2, 3, 4),
        make.pick(*INNER),
        *(make.pick(True, False) for _ in range(2)),
    )
    r = make.weight(D, E)
    shapes = [(D, F), (F, D)] + ([(D,)] if biased else [])
    if stacked:
        stacks = [make.weight(E, *shape) for shape in shapes]
    else:
        single = [[make.weight(*shape) for shape in shapes] for _ in range(E)]

    def run(w, x, _):
        gate, out = jax.nn.softmax(x @ w[r]), jnp.zeros_like(x)
        for e in range(E):
            i, o, *bias = (w[n][e] for n in stacks) if stacked else (w[n] for n in single[e])
            out += gate[..., e, None] * sum(bias, jax.nn.relu(x @ i) @ o)
        return out

    return run


def experts(make: Maker, D: int) -> Block:
    """Every expert on every token, all at once or in a loop."""
    if make.pick(True, False):
        return looped_experts(make, D)
    E, F = make.pick(2, 3, 4, 8), make.pick(*INNER)
    r, i, o = make.weight(D, E), make.weight(E, D, F), make.weight(E, F, D)

    def run(w, x, _):
        h = jax.nn.relu(jnp.einsum("bsd,edf->bsef", x, w[i]))
        return jnp.einsum("bse,bsef,efd->bsd", jax.nn.softmax(x @ w[r]), h, w[o])

    return run


LEAVES = (mlp, attention, norm, linear, joined, mixer, convolution, channels, experts)
