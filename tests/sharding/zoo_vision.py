"""Models of images and sound: patches, two towers, convolutions, batch statistics."""

import jax
import jax.numpy as jnp
import numpy as np
from sharding.zoo import IDS, LARGE, B, D, F, H, N, S, V, norm, shapes
from sharding.zoo_text import attend, heads, joined

PATCH, RGB, FRAMES = 4, 3, 2 * S
SIZE, MELS = (64, 80) if LARGE else (8, 8)
IMAGE = {"x": jax.ShapeDtypeStruct((B, SIZE, SIZE, RGB), jnp.float32)}
IMAGE_AXES = ("NHWC", "HWIO", "NHWC")


def conv(x, kernel, stride=1, padding="SAME", groups=1):
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        padding,
        dimension_numbers=IMAGE_AXES,
        feature_group_count=groups,
    )


def block(w, x, memory=None, bias=0.0):
    h = norm(x, w["n"])
    m = h if memory is None else memory
    x = x + joined(attend(heads(h @ w["q"]), heads(m @ w["k"]), heads(m @ w["v"]), bias)) @ w["o"]
    return x + jax.nn.gelu(norm(x, w["n"]) @ w["i"]) @ w["j"]


BLOCK = {"n": (D,), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D), "i": (D, F), "j": (F, D)}


def patches(p, image):
    """(B,H,W,3) -> (B, number of patches + 1, D), with a token for the class first."""
    x = conv(image, p["stem"], PATCH, "VALID").reshape(B, -1, D) + p["stem_b"]
    first = jnp.broadcast_to(p["first"], (B, 1, D))
    return jnp.concatenate([first, x], 1) + p["place"]


def vit(p, batch):
    x = patches(p, batch["x"])
    for w in p["b"]:
        x = block(w, x)
    return norm(x, p["n"])[:, 0] @ p["top"]


TOKENS = (SIZE // PATCH) ** 2 + 1
STEM = shapes(stem=(PATCH, PATCH, RGB, D), stem_b=(D,), first=(1, 1, D), place=(TOKENS, D))


def clip(p, batch):
    image, text = patches(p["eye"], batch["x"]), p["read"]["t"][batch["ids"]] + p["read"]["at"]
    image = block(p["eye"]["b"], image)[:, 0] @ p["eye"]["to"]
    text = block(p["read"]["b"], text)[:, -1] @ p["read"]["to"]
    image, text = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (image, text))
    return jnp.exp(p["heat"]) * image @ text.T


def whisper(p, batch):
    """Two convolutions over time, the second halves it; then an encoder and a decoder."""
    x = batch["mel"]
    for name, stride in (("c1", 1), ("c2", 2)):
        x = jax.lax.conv_general_dilated(
            x, p[name], (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        )
        x = jax.nn.gelu(x + p[name + "b"])
    time = np.arange(FRAMES // 2)[:, None] / 10.0 ** (np.arange(D) / D)
    x = block(p["e"], x + np.sin(time).astype(x.dtype))
    y = block(p["d"], p["t"][batch["ids"]] + p["at"][:S])
    return block(p["c"], y, memory=x) @ p["t"].T


def group_norm(x, scale, groups=8):
    y = x.reshape(*x.shape[:3], groups, -1)
    y = (y - y.mean((1, 2, 4), keepdims=True)) * jax.lax.rsqrt(
        y.var((1, 2, 4), keepdims=True) + 1e-5
    )
    return y.reshape(x.shape) * scale


def residual(w, x, time):
    h = conv(jax.nn.silu(group_norm(x, w["n1"])), w["k1"]) + (time @ w["t"])[:, None, None]
    h = conv(jax.nn.silu(group_norm(h, w["n2"])), w["k2"])
    return (conv(x, w["skip"]) if "skip" in w else x) + h


def unet(p, batch):
    wave = jnp.sin(batch["when"][:, None] * np.arange(1, 9))
    time = jax.nn.silu(wave @ p["t1"]) @ p["t2"]
    x = a = residual(p["in"], conv(batch["x"], p["first"]), time)
    x = residual(p["down"], conv(x, p["half"], 2), time)
    h = group_norm(x, p["an"]).reshape(B, -1, D)
    h = joined(attend(heads(h @ p["q"]), heads(h @ p["k"]), heads(h @ p["v"]))) @ p["o"]
    x = x + h.reshape(x.shape)
    x = jax.image.resize(x, (B, SIZE, SIZE, D), "nearest")
    x = residual(p["up"], jnp.concatenate([x, a], -1), time)
    return conv(x, p["last"])


def residual_shapes(c_in, c_out):
    made = {"n1": (c_in,), "k1": (3, 3, c_in, c_out), "t": (F, c_out), "n2": (c_out,)}
    made |= {"k2": (3, 3, c_out, c_out)}
    return shapes(**made, **({} if c_in == c_out else {"skip": (1, 1, c_in, c_out)}))


C = D // 2
UNET = shapes(t1=(8, F), t2=(F, F), first=(3, 3, RGB, C), half=(3, 3, C, D), last=(3, 3, C, RGB))
UNET |= shapes(an=(D,), q=(D, D), k=(D, D), v=(D, D), o=(D, D))
UNET |= {"in": residual_shapes(C, C), "down": residual_shapes(D, D)}
UNET |= {"up": residual_shapes(D + C, C)}


def batch_norm(x, scale):
    """Statistics of this batch."""
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale


def convnet(p, batch):
    """A residual network with a depthwise convolution, max pooling and mean pooling."""
    x = jax.nn.relu(batch_norm(conv(batch["x"], p["a"], 2), p["n"]))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
    for w in p["b"]:
        h = jax.nn.relu(batch_norm(conv(x, w["1"]), w["n"]))
        h = conv(h, w["2"], groups=F)
        x = x + conv(h, w["3"])
    return x.mean((1, 2)) @ p["z"]


CONV_BLOCK = shapes(**{"1": (1, 1, D, F), "n": (F,), "2": (3, 3, 1, F), "3": (1, 1, F, D)})
MEL = {"mel": jax.ShapeDtypeStruct((B, FRAMES, MELS), jnp.float32)} | IDS

VISION = {
    "vit": (vit, STEM | shapes(n=(D,), top=(D, 8)) | {"b": [shapes(**BLOCK)] * 2}, IMAGE),
    "clip": (
        clip,
        {
            "eye": STEM | shapes(to=(D, F)) | {"b": shapes(**BLOCK)},
            "read": shapes(t=(V, D), at=(S, D), to=(D, F)) | {"b": shapes(**BLOCK)},
            "heat": jax.ShapeDtypeStruct((), jnp.float32),
        },
        IMAGE | IDS,
    ),
    "whisper": (
        whisper,
        shapes(c1=(3, MELS, D), c1b=(D,), c2=(3, D, D), c2b=(D,), t=(V, D), at=(S * 2, D))
        | {name: shapes(**BLOCK) for name in "edc"},
        MEL,
    ),
    "unet": (unet, UNET, IMAGE | {"when": jax.ShapeDtypeStruct((B,), jnp.float32)}),
    "convnet": (
        convnet,
        shapes(a=(3, 3, RGB, D), n=(D,), z=(D, 12)) | {"b": [CONV_BLOCK]},
        IMAGE,
    ),
}
assert N * H == D
