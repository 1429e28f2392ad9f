"""Attention by each kernel, and by XLA whole and in blocks, beside the formula."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.sharding import PartitionSpec as P

from redco_runtime.nn import attention as module
from redco_runtime.layout.activations import layouts
from redco_runtime.nn.attention import attention, text_positions
from redco_runtime.step.flops import training_flops
from redco_runtime.nn.kernels import KERNELS, Kernel, Rule, text_table
from redco_runtime.nn.packed_rows import most_texts
from redco_runtime.layout.mesh import make_mesh

B, N, K, H = 2, 4, 2, 16
SPEC = P("data", None, "model", None)
TABLE = {"heads_BSNH": SPEC, "attention": SPEC}
TOLERANCE = {"float32": 2e-5, "bfloat16": 4e-2}


def arrays(S, T, dtype, heads=K):
    """Queries, keys and values, and the weights that make a loss of the output."""
    shapes = [(B, S, N, H), (B, T, heads, H), (B, T, heads, H), (B, S, N, H)]
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes]


def formula(q, k, v, *, causal=False, start=0, window=None, windowed=True, mask_BT=None,
            segments_BS=None, bias_1NST=None, cap=None, scale=None):  # fmt: skip
    """Attention as it is defined, in numpy's manner: one einsum, one mask, one softmax."""
    k, v = (jnp.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = jnp.einsum("bsnh,btnh->bnst", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias_1NST is None else scores + bias_1NST
    scores = scores if cap is None else cap * jnp.tanh(scores / cap)
    ago = start + np.arange(q.shape[1])[:, None] - np.arange(k.shape[1])[None, :]
    seen = (ago >= 0) | (not causal)
    if window is not None and windowed:
        seen &= ago < window
    seen = jnp.broadcast_to(seen[None, None], scores.shape)
    if mask_BT is not None:
        seen &= mask_BT[:, None, None, :]
    if segments_BS is not None:
        seen &= (segments_BS[:, :, None] == segments_BS[:, None, :])[:, None]
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return jnp.einsum("bnst,btnh->bsnh", weights, v)


def sides(T):
    """Padding on the right of one row, on the left of the other."""
    return jnp.stack([jnp.arange(T) < T - 30, jnp.arange(T) >= 41])


def texts(S):
    return jnp.stack([jnp.arange(S) // 50, jnp.arange(S) // 77]).astype(jnp.int32)


VARIANTS = {
    "causal": (200, 200, {"causal": True}),
    "whole": (128, 128, {}),
    "window": (256, 256, {"causal": True, "window": 40}),
    "windowed": (256, 256, {"causal": True, "window": 40, "windowed": jnp.array(True)}),
    "not windowed": (256, 256, {"causal": True, "window": 40, "windowed": jnp.array(False)}),
    "padding": (130, 130, {"mask_BT": sides(130)}),
    "cross": (50, 150, {"mask_BT": sides(150), "scale": 1.0}),
    "causal padding": (128, 128, {"causal": True, "mask_BT": sides(128)}),
    "texts": (192, 192, {"causal": True, "segments_BS": texts(192)}),
    "cap": (128, 128, {"causal": True, "cap": 2.0}),
    "bias": (128, 128, {"bias_1NST": jnp.sin(jnp.arange(N * 128 * 128.0)).reshape(1, N, 128, 128)}),
}
CUDNN = ("causal", "whole", "window", "windowed", "not windowed", "padding", "cross")


def shown(options, S):
    """Where the output is defined: queries that see a key."""
    if not options.get("causal") or "mask_BT" not in options:
        return jnp.ones((B, S), bool)
    return jnp.cumsum(options["mask_BT"], axis=1) > 0


def check(variant, dtype, attend=attention):
    """Value, and the gradient of each array, against the formula on the same numbers in float32."""
    S, T, options = VARIANTS[variant]
    *qkv, weights = arrays(S, T, dtype)
    weights = jnp.where(shown(options, S)[:, :, None, None], weights, 0)

    def loss(attend, *qkv):
        o = attend(*qkv, **options).astype(jnp.float32) * weights.astype(jnp.float32)
        return o.sum(), o

    ours = jax.jit(jax.grad(functools.partial(loss, attend), (0, 1, 2), has_aux=True))(*qkv)
    exact = [x.astype(jnp.float32) for x in qkv]
    theirs = jax.jit(jax.grad(functools.partial(loss, formula), (0, 1, 2), has_aux=True))(*exact)
    assert ours[1].dtype == jnp.float32
    for one, two in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        size = float(jnp.abs(two).max())
        np.testing.assert_allclose(
            np.asarray(one, np.float32), two, atol=TOLERANCE[dtype] * max(size, 1.0)
        )


@pytest.fixture(autouse=True)
def mesh():
    """data 2 x model 2, by which TABLE splits rows and heads."""
    with jax.set_mesh(make_mesh({"data": 2, "model": 2})), layouts(TABLE):
        yield


@pytest.fixture
def route(monkeypatch):
    """route(name): attention goes that way on the CPUs in place."""

    def formula_alone():
        pass

    def blocks():
        monkeypatch.setattr(module, "KERNELS", {"cpu": Kernel("none", None, refuse)})
        monkeypatch.setattr(module, "BLOCK", 48)

    def tpu():
        make = functools.partial(splash_attention.make_splash_mha, interpret=True)
        monkeypatch.setattr(splash_attention, "make_splash_mha", make)
        monkeypatch.setattr(module, "KERNELS", {"cpu": KERNELS["tpu"]})

    def cudnn():
        """What is asked of cuDNN, XLA does."""
        real = jax.nn.dot_product_attention

        def stand_in(*args, implementation, mask=None, bias=None, **options):
            assert (implementation, mask, bias) == ("cudnn", None, None)
            return real(*args, **options)

        kernel = replace(KERNELS["gpu"], check=lambda *_: None)
        monkeypatch.setattr(module, "KERNELS", {"cpu": kernel})
        monkeypatch.setattr(jax.nn, "dot_product_attention", stand_in)

    return lambda name: {"xla": formula_alone, "blocks": blocks, "tpu": tpu, "cudnn": cudnn}[name]()


def refuse(*_):
    raise NotImplementedError("anything")


QUICK = [("blocks", "texts"), ("tpu", "padding"), ("cudnn", "cross")]
ROUTES = {"xla": VARIANTS, "blocks": VARIANTS, "cudnn": CUDNN, "tpu": set(VARIANTS) - {"bias"}}
# Each route with each variant, and each of both with either dtype.
PAIRS = [
    (route, variant, sorted(TOLERANCE)[(i + j) % len(TOLERANCE)])
    for i, (route, variants) in enumerate(ROUTES.items())
    for j, variant in enumerate(sorted(variants))
]


@pytest.mark.parametrize(("name", "variant"), QUICK)
def test_each_way_computes_attention(route, name, variant):
    route(name)
    check(variant, "float32")


@pytest.mark.slow  # each of them compiles twice
@pytest.mark.parametrize(("name", "variant", "dtype"), PAIRS)
def test_each_variant_on_each_way(route, name, variant, dtype):
    route(name)
    check(variant, dtype)


def test_what_a_kernel_does_not_do_is_said_once(route, capsys):
    route("tpu")
    q, k, v, _ = arrays(8, 8, "float32")
    bias = jnp.zeros((1, N, 8, 8))
    for _ in range(2):
        jax.eval_shape(lambda *qkv: attention(*qkv, bias_1NST=bias), q, k, v)
    line = "attention: XLA's, slower than the TPU's, which does not do this: a bias of scores\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("variant", "dtype", "limit"),
    [
        ("cap", "bfloat16", "a cap on scores"),
        ("causal padding", "bfloat16", "padding in a causal order"),
        ("causal", "float32", "float32, only bfloat16 and float16"),
    ],
)
def test_what_cudnn_does_not_do(monkeypatch, variant, dtype, limit):
    monkeypatch.setattr(jax, "local_devices", lambda: [])  # as where a machine is not here
    *_, options = VARIANTS[variant]
    rule = Rule(options["causal"], None, options.get("cap"), 1.0)
    with pytest.raises(NotImplementedError, match=limit):
        KERNELS["gpu"].check(rule, options, jnp.dtype(dtype))


@pytest.mark.parametrize(("capability", "good"), [("7.5", False), ("gfx942", False), ("9.0", True)])
def test_cudnn_needs_ampere(monkeypatch, capability, good):
    device = SimpleNamespace(device_kind="cpu", compute_capability=capability)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    check = functools.partial(KERNELS["gpu"].check, Rule(True, None, None, 1.0), {}, jnp.bfloat16)
    if good:
        check()
    else:
        with pytest.raises(NotImplementedError, match="cpu"):
            check()


def test_texts_of_a_row_that_cudnn_takes_are_all_in_its_table():
    S = 20
    most = most_texts(S) + 1  # and padding
    few = jnp.repeat(jnp.array([1, 2, 0]), jnp.array([5, 8, 7]))
    many, over = jnp.minimum(jnp.arange(S), most - 1), jnp.minimum(jnp.arange(S), most)
    starts, lengths, fits = text_table(jnp.stack([few, many, over]))
    assert starts[0].tolist() == [0, 5, 13] + [-1] * (most - 2)
    assert lengths[0].tolist() == [5, 8, 7] + [-1] * (most - 3)
    assert starts[1].tolist() == [*range(most), -1] and lengths[1].sum() == S
    assert fits.tolist() == [True, True, False]


@pytest.mark.parametrize(("capability", "limits"), [("8.0", True), ("9.0", False)])
def test_cudnn_takes_packed_texts_from_hopper_on(monkeypatch, capability, limits):
    device = SimpleNamespace(device_kind="cpu", compute_capability=capability)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    *_, options = VARIANTS["texts"]
    rule, arrays = Rule(True, None, None, 1.0), {"segments_BS": options["segments_BS"]}
    check = functools.partial(KERNELS["gpu"].check, rule, arrays, jnp.bfloat16)
    if limits:
        with pytest.raises(NotImplementedError, match="packed in a row, on cpu"):
            check()
    else:
        check()


def test_gradients_are_not_added_up_over_axes_that_split_nothing(route):
    route("tpu")
    q, k, v, _ = arrays(128, 128, "float32")

    def loss(q, k, v):
        return attention(q, k, v, causal=True).sum()

    with layouts({"heads_BSNH": P("data", None, None, None)}):
        jaxpr = jax.make_jaxpr(jax.grad(loss, (0, 1, 2)))(q, k, v)
    assert "psum" not in str(jaxpr) and "shard_map" in str(jaxpr)


@pytest.mark.parametrize("name", ["xla", "blocks"])
def test_the_place_in_a_cache_may_be_traced(route, name):
    route(name)
    q, k, v, _ = arrays(8, 40, "float32")
    ours, theirs = (
        jax.jit(lambda start, f=f: f(q, k, v, causal=True, start=start))(11)
        for f in (attention, formula)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_heads_that_devices_share(route):
    route("cudnn")
    S, T, options = VARIANTS["causal"]
    *qkv, _ = arrays(S, T, "float32", heads=1)
    ours, theirs = (
        jax.jit(lambda *qkv, f=f: f(*qkv, **options))(*qkv) for f in (attention, formula)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_kernel_counts_as_the_formula(route):
    q, k, v, _ = arrays(128, 128, "float32")
    loss = lambda model, batch, key: attention(*model, causal=True).sum()  # noqa: E731
    steps = SimpleNamespace(loss=loss, state=SimpleNamespace(model=(q, k, v)))
    route("tpu")
    assert training_flops(steps, {}) == 3 * 2 * (2 * B * N * 128 * 128 * H)


def test_positions_begin_anew_with_each_text_of_a_row():
    segments = jnp.array(
        [[1, 1, 1, 2, 2, 3, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0], [7, 5, 5, 5, 5, 5, 5, 1]]
    )
    ours = text_positions(8, segments).tolist()
    assert ours == [[0, 1, 2, 0, 1, 0, 0, 1], [*range(8)], [0, 0, 1, 2, 3, 4, 5, 0]]
    assert text_positions(3, None).tolist() == [[0, 1, 2]]
