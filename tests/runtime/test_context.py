"""Attention and the loss where devices split positions, beside one device."""

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import nn
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.sharding import PartitionSpec as P

from redco_runtime.base.messages import UserError
from redco_runtime.layout.activations import layouts
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.attention import attention, text_positions
from redco_runtime.nn import ring, ring_blocks
from redco_runtime.nn.kernels import Kernel
from redco_runtime.nn.losses import cross_entropy

B, S, N, H, D, V = 2, 16, 8, 4, 12, 40
AXES = {"context": 2, "model": 2}
TABLE = {
    "heads_BSNH": P(None, "context", "model", None),
    "attention": P(None, None, ("model", "context"), None),
    "x_BSD": P(None, "context", None),
}


def step(function, arrays):
    every = tuple(range(len(arrays)))
    return jax.jit(jax.value_and_grad(lambda *x: (function(*x) ** 2).sum(), every))


def compare(function, *arrays):
    """Check a function and its gradients on devices of AXES beside one."""
    expected = step(function, arrays)(*arrays)
    with jax.set_mesh(make_mesh(AXES)), layouts(TABLE):
        result = step(function, arrays)(*arrays)
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


def heads(count, length=S, seed=0):
    return jax.random.normal(jax.random.key(seed), (B, length, count, H))


@pytest.mark.parametrize("kv_heads", [N, 4, 2, 1])
def test_each_device_has_all_positions_of_its_own_heads(kv_heads):
    segments = jnp.cumsum(jnp.arange(S)[None, :] % 5 == 0, axis=1).repeat(B, axis=0)

    def attend(q, k, v):
        o = attention(q, k, v, causal=True, segments_BS=segments)
        return o + text_positions(S, segments)[:, :, None, None]

    q, k, v = heads(N), heads(kv_heads, seed=1), heads(kv_heads, seed=2)
    compare(attend, q, k, v)


def test_nothing_is_gathered_where_heads_divide():
    q, k, v = heads(N), heads(4, seed=1), heads(4, seed=2)
    with jax.set_mesh(make_mesh(AXES)), layouts(TABLE):
        spec = jax.NamedSharding(jax.sharding.get_mesh(), TABLE["heads_BSNH"])
        step = jax.jit(
            jax.grad(lambda *x: (attention(*x, causal=True) ** 2).sum(), (0, 1, 2)),
            in_shardings=(spec,) * 3,
            out_shardings=(spec,) * 3,
        )
        text = step.lower(q, k, v).compile().as_text()
    assert text.count(" all-to-all(") == 8 and " all-gather(" not in text


def test_keys_of_another_length_and_one_token():
    arrays = (
        heads(N),
        heads(N, 7, seed=1),
        heads(N, 7, seed=2),
    )  # 7 positions are whole on each device
    compare(lambda q, k, v: attention(q, k, v), *arrays)
    compare(lambda q, k, v: attention(q, k, v, start=6, causal=True), heads(N, 1), *arrays[1:])


def test_heads_that_do_not_divide_are_named():
    with jax.set_mesh(make_mesh(AXES)), layouts(TABLE):
        with pytest.raises(
            UserError, match="model 2 x context 2 devices do not divide the 6 heads"
        ):
            jax.eval_shape(attention, heads(6), heads(6), heads(6))


@dataclass
class Head(nnx.Module):
    kernel: nnx.Param

    def logits(self, x):
        return x @ self.kernel[...]


@pytest.mark.parametrize("chunk", [None, 4, 6])
def test_each_device_has_a_part_of_every_chunk_of_a_loss(chunk):
    labels = jax.random.randint(jax.random.key(3), (B, S), 0, V)

    def loss(kernel, x):
        return cross_entropy(Head(nnx.Param(kernel)).logits, x, labels, chunk)

    kernel = jax.random.normal(jax.random.key(0), (D, V))
    compare(loss, kernel, jax.random.normal(jax.random.key(1), (B, S, D)))


AROUND = TABLE | {"attention": P(None, "context", "model", None)}
SEGMENTS = jnp.cumsum(jnp.arange(S)[None, :] % 5 == 0, axis=1).repeat(B, axis=0)


@pytest.mark.parametrize(
    ("axes", "kv_heads", "options"),
    [
        ({"context": 4}, 2, {}),  # of two heads of keys, half a device each
        ({"context": 2, "model": 2}, 4, {"segments_BS": SEGMENTS}),
        ({"context": 2, "model": 2}, 1, {"window": 5, "cap": 3.0}),
        ({"context": 4}, N, {"window": 3, "windowed": jnp.array(False), "scale": 0.2}),
    ],
)
def test_keys_and_values_go_around_a_ring(axes, kv_heads, options, monkeypatch):
    """Two queries at a time, with gradients; nothing is gathered, and what moves does so by permutes."""
    monkeypatch.setattr(ring, "BLOCK", 2)

    def attend(q, k, v):
        return (attention(q, k, v, causal=True, **options) ** 2).sum()

    arrays = heads(N), heads(kv_heads, seed=1), heads(kv_heads, seed=2)
    every = jax.value_and_grad(attend, (0, 1, 2))
    expected = jax.jit(every)(*arrays)
    with jax.set_mesh(make_mesh(axes)), layouts(AROUND):
        program = jax.jit(every).lower(*arrays).compile()
        result = program(*arrays)
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    text = program.as_text()
    sent = 8 + 11 if axes["context"] > 2 else 6 + 10  # of two devices, the loop between is none
    assert text.count(" collective-permute(") == sent and " all-to-all(" not in text


def weigh(q, k, scale, kind):
    """Return scores_BNST as a kernel of GPUs has them, of a causal order or none."""
    scores = scale * jnp.einsum("bsnh,btnh->bnst", q, k)
    late = jnp.tril(jnp.ones(scores.shape[2:], bool)) if kind == cudnn.MaskType.CAUSAL else True
    return jnp.where(late, scores, -jnp.inf)


def run_as_cudnn(q, k, v, *, scale, mask_type, return_residual):
    scores = weigh(q, k, scale, mask_type)
    return jnp.einsum("bnst,btnh->bsnh", nn.softmax(scores), v), nn.logsumexp(scores, axis=-1)


def pull_as_cudnn(scale, seed, rate, has_bias, kind, layout, *rest):
    """Return gradients as flash attention has them: weights of the sums that are given, whatever keys these are of."""
    (q, k, v, *_, lse_BNS, o), do = rest[-2:]
    weights = jnp.exp(weigh(q, k, scale, kind) - lse_BNS[..., None])
    pulled = jnp.einsum("bsnh,btnh->bnst", do, v) - (do * o).sum(-1).swapaxes(1, 2)[..., None]
    slopes = scale * weights * pulled
    dq, dk = (
        jnp.einsum(dims, slopes, x) for dims, x in (("bnst,btnh->bsnh", k), ("bnst,bsnh->btnh", q))
    )
    return dq, dk, jnp.einsum("bnst,bsnh->btnh", weights, do)


LONG = 512
TEXTS = jnp.cumsum(jnp.arange(LONG)[None, :] % 200 == 0, axis=1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gpu", {}),
        ("tpu", {"segments_BS": TEXTS, "mask_BT": jnp.arange(LONG)[None, :] < 450, "cap": 3.0}),
    ],
)
def test_blocks_of_a_ring_are_kernels(kind, options, monkeypatch):
    """Of TPUs, as interpreted; of GPUs, the formulas of a kernel in its place. Both give and take sums of all blocks."""
    monkeypatch.setitem(ring_blocks.KERNELS, "cpu", Kernel("", attention, lambda *_: None))
    monkeypatch.setitem(ring_blocks.BLOCKS, "cpu", ring_blocks.BLOCKS[kind])
    make = functools.partial(splash_attention.make_splash_mha, interpret=True)
    monkeypatch.setattr(splash_attention, "make_splash_mha", make)
    monkeypatch.setattr(cudnn, "dot_product_attention", run_as_cudnn)
    monkeypatch.setattr(cudnn, "_dot_product_attention_bwd_rule", pull_as_cudnn)
    monkeypatch.delattr(ring, "_scores")  # no formula of the ring's own
    shown = options.get("mask_BT", jnp.ones((1, LONG), bool))[:, :, None, None]

    def attend(q, k, v):
        return (jnp.where(shown, attention(q, k, v, causal=True, **options), 0) ** 2).sum()

    q, k, v = (jax.random.normal(jax.random.key(i), (1, LONG, 2, 128)) for i in range(3))
    every = jax.value_and_grad(attend, (0, 1, 2))
    expected = jax.jit(every)(q, k, v)
    with jax.set_mesh(make_mesh({"context": 2, "model": 1}, jax.devices()[:2])), layouts(AROUND):
        result = jax.jit(every)(q, k, v)
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "does not do this: no causal order: .* --context-attention heads"),
        ({"causal": True, "bias_1NST": jnp.zeros((1, N, S, S))}, "does not do this: bias_1NST"),
    ],
)
def test_what_does_not_go_in_a_ring_is_named(options, what):
    with jax.set_mesh(make_mesh(AXES)), layouts(AROUND):
        with pytest.raises(UserError, match=what):
            jax.eval_shape(lambda *x: attention(*x, **options), heads(N), heads(N), heads(N))
        with pytest.raises(UserError, match="18 positions do not divide by 4, two parts for each"):
            jax.eval_shape(lambda *x: attention(*x, causal=True), *[heads(N, 18)] * 3)


@pytest.mark.parametrize(("axes", "few"), [(AXES, 4), ({"context": 1, "model": 1}, S)])
def test_few_queries_against_a_cache_and_one_device_are_in_no_ring(axes, few):
    arrays, start = (heads(N, few), heads(N, seed=1), heads(N, seed=2)), 6 if few < S else None

    def attend(q, k, v):
        return attention(q, k, v, start=start, causal=True)

    expected = attend(*arrays)
    mesh = make_mesh(axes, jax.devices()[: math.prod(axes.values())])
    with jax.set_mesh(mesh), layouts(AROUND):
        np.testing.assert_allclose(jax.jit(attend)(*arrays), expected, rtol=1e-5, atol=1e-5)
