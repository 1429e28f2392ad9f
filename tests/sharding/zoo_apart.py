"""Models that an expert would write in another way first: their layouts need a program of its own.

Each with a model that computes the same, as the expert writes it, and the expert's layout of that
one: (forward, params, batch), the same of the expert's, and dim -> the names that `model` splits.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from sharding.zoo import IDS, LARGE, B, D, F, H, N, S, V, norm, shapes

K = 4  # kv heads
HEADS, STATE, CHUNK = (32, 128, 128) if LARGE else (8, 8, 4)
INNER = 2 * D
SEEN = np.tril(np.ones((S, S), bool))


def model(layer, **shape):
    """A model of a table, two layers and a head."""

    def forward(p, batch):
        x = p["t"][batch["ids"]]
        for w in p["l"]:
            x = x + layer(w, norm(x, w["n"]))
        return x @ p["u"]

    return forward, shapes(t=(V, D), u=(D, V)) | {"l": [shapes(n=(D,), **shape)] * 2}, IDS


def softmax(scores):
    return jax.nn.softmax(jnp.where(SEEN, scores / 8, -1e9))


def into_rows(x):
    """(B*N,S,H) of (B,S,N*H)."""
    return x.reshape(B, S, N, H).transpose(0, 2, 1, 3).reshape(B * N, S, H)


def merged(w, x):
    """Heads in the rows of the batch, and an activation with a derivative of its own."""
    q, k, v = (into_rows(x @ w[name]) for name in "qkv")
    y = jnp.einsum("bqk,bkh->bqh", softmax(jnp.einsum("bqh,bkh->bqk", jax.nn.relu(q), k)), v)
    return y.reshape(B, N, S, H).transpose(0, 2, 1, 3).reshape(B, S, -1) @ w["o"]


def attend(q, k, v):
    weights = softmax(jnp.einsum("bqkgh,btkh->bkgqt", q.reshape(B, S, k.shape[2], -1, H), k))
    return jnp.einsum("bkgqt,btkh->bqkgh", weights, v).reshape(B, S, -1)


def separate(w, x):
    """Kernels of their own for q, k and v."""
    q, k, v = ((x @ w[name]).reshape(B, S, -1, H) for name in "qkv")
    return attend(q, k, v) @ w["o"]


def heads_last(w, x):
    """The same as `merged`, the heads a dim of their own."""
    q, k, v = ((x @ w[name]).reshape(B, S, -1, H) for name in "qkv")
    return attend(jax.nn.relu(q), k, v) @ w["o"]


def grouped(w, x):
    """Fewer heads of keys and values, all in one kernel."""
    return attend(*jnp.split((x @ w["qkv"]).reshape(B, S, -1, H), [N, N + K], 2)) @ w["o"]


def sums_of_chunks(a):
    """(...,T,T) of (...,T): the sums from each place to each later one."""
    sums = jnp.cumsum(a, -1)
    later = np.tril(np.ones((a.shape[-1],) * 2, bool))
    return jnp.where(later, sums[..., :, None] - sums[..., None, :], -jnp.inf)


def scan_chunks(x, a, b, c):
    """The state space duality of Mamba2: (B,S,N,P) of that, (B,S,N), and two (B,S,STATE)."""
    x, b, c = (y.reshape(B, -1, CHUNK, *y.shape[2:]) for y in (x, b, c))
    a = a.reshape(B, -1, CHUNK, HEADS).transpose(0, 3, 1, 2)
    sums = jnp.cumsum(a, -1)
    inside = jnp.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, jnp.exp(sums_of_chunks(a)), x)
    left = jnp.exp(sums[..., -1:] - sums)
    states = jnp.einsum("bcln,bhcl,bclhp->bchpn", b, left, x)
    states = jnp.concatenate([jnp.zeros_like(states[:, :1]), states], 1)
    ends = jnp.pad(sums[..., -1], ((0, 0), (0, 0), (1, 0)))
    states = jnp.einsum("bhzc,bchpn->bzhpn", jnp.exp(sums_of_chunks(ends)), states)[:, :-1]
    return (inside + jnp.einsum("bcln,bchpn,bhcl->bclhp", c, states, jnp.exp(sums))).reshape(
        B, S, HEADS, -1
    )


def convolve(x, kernel, bias):
    """A causal convolution of each channel by itself."""
    numbers = {"dimension_numbers": ("NWC", "WIO", "NWC"), "feature_group_count": x.shape[-1]}
    return jax.nn.silu(jax.lax.conv_general_dilated(x, kernel, (1,), [(3, 0)], **numbers) + bias)


def select(w, x, z, b, c, step):
    """What Mamba2 makes of its five inputs."""
    step = jax.nn.softplus(step + w["stepb"])
    x = x.reshape(B, S, HEADS, -1)
    y = scan_chunks(x * step[..., None], -jnp.exp(w["a"]) * step, b, c) + w["skip"][:, None] * x
    return norm(y.reshape(B, S, INNER) * jax.nn.silu(z), w["n2"]) @ w["out"]


def shifted(x, kernel, bias):
    """The same, as a sum of shifted copies, each times its own row of the kernel."""
    x = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
    rows = (kernel[j, 0] * x[:, j : j + S] for j in range(4))
    return jax.nn.silu(sum(rows) + bias)


def mamba2(w, x, joined=False):
    """All five in one kernel; three of them, together, through a convolution."""
    h = x @ w["in"]
    if joined:  # cut one by one, and put together again, for shifted copies
        stops = np.cumsum([0, INNER, INNER, STATE, STATE, HEADS])
        z, *xbc, step = (h[..., a:b] for a, b in zip(stops, stops[1:], strict=False))
        xbc = shifted(jnp.concatenate(xbc, -1), w["c"], w["cb"])
    else:
        z, xbc, step = jnp.split(h, [INNER, 2 * INNER + 2 * STATE], -1)
        xbc = convolve(xbc, w["c"], w["cb"])
    x, b, c = jnp.split(xbc, [INNER, INNER + STATE], -1)
    return select(w, x, z, b, c, step)


def mamba2_apart(w, x):
    """The same, a kernel for each."""
    z, x, b, c, step = (x @ w[name] for name in ("wz", "wx", "wb", "wc", "ws"))
    x, b, c = (
        convolve(y, w[f"c{name}"], w[f"c{name}b"]) for y, name in zip((x, b, c), "xbc", strict=True)
    )
    return select(w, x, z, b, c, step)


def looped(w, x, kernels):
    """Experts one after the other, each weighted by its gate."""
    gate, out = jax.nn.softmax(x @ w["r"]), jnp.zeros_like(x)
    for e, (i, j, bias) in enumerate(kernels):
        out += gate[..., e, None] * (jax.nn.relu(x @ i) @ j + bias)
    return out


def experts(w, x):
    """Experts whose kernels are parameters of their own."""
    return looped(w, x, [(w[f"i{e}"], w[f"j{e}"], w[f"b{e}"]) for e in range(E)])


def indexed(w, x):
    """Experts whose kernels are taken out of one array."""
    return looped(w, x, [(w["i"][e], w["j"][e], w["b"][e]) for e in range(E)])


def dispatched(w, x):
    """All experts at once."""
    gate, h = jax.nn.softmax(x @ w["r"]), jax.nn.relu(jnp.einsum("bsd,edf->bsef", x, w["i"]))
    return jnp.einsum("bsef,efd->bsd", gate[..., None] * h, w["j"]) + gate @ w["b"]


E = 4
STACK = {"r": (D, E), "i": (E, D, F), "j": (E, F, D), "b": (E, D)}
SINGLE = {f"{name}{e}": STACK[name][1:] for e in range(E) for name in "ijb"} | {"r": (D, E)}
CHANNELS = INNER + 2 * STATE
SELECT = {
    **{"stepb": (HEADS,), "a": (HEADS,), "skip": (HEADS,), "n2": (INNER,), "out": (INNER, D)},
}
FUSED = SELECT | {"in": (D, INNER + CHANNELS + HEADS), "c": (4, 1, CHANNELS), "cb": (CHANNELS,)}
APART = SELECT | {"wz": (D, INNER), "wx": (D, INNER), "wb": (D, STATE), "wc": (D, STATE)}
APART |= {"ws": (D, HEADS), "cx": (4, 1, INNER), "cb": (4, 1, STATE), "cc": (4, 1, STATE)}
APART |= {"cxb": (INNER,), "cbb": (STATE,), "ccb": (STATE,)}
SQUARE = {name: (D, N * H) for name in "qkv"} | {"o": (N * H, D)}
QKV = {"q": (D, N * H), "k": (D, K * H), "v": (D, K * H), "o": (N * H, D)}
MAMBA2 = {0: "out stepb a skip n2 cxb", 1: "wz wx ws", 2: "cx"}

# name -> (the model, as an expert writes it, dim -> what the expert splits)
WRITTEN = {
    "merged": (model(merged, **SQUARE), model(heads_last, **SQUARE), {0: "o", 1: "q k v"}),
    "grouped": (
        model(grouped, qkv=(D, (N + 2 * K) * H), o=(N * H, D)),
        model(separate, **QKV),
        {0: "o", 1: "q k v"},
    ),
    "experts": (model(experts, **SINGLE), model(dispatched, **STACK), {1: "j", 2: "i"}),
    "indexed": (model(indexed, **STACK), model(dispatched, **STACK), {1: "j", 2: "i"}),
    "mamba2": (model(mamba2, **FUSED), model(mamba2_apart, **APART), MAMBA2),
    "mamba2_joined": (
        model(functools.partial(mamba2, joined=True), **FUSED),
        model(mamba2_apart, **APART),
        MAMBA2,
    ),
}
