"""Products in 8 bits: the codes, the gradients, what is saved, which layers have them, which devices."""

import re
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from flax import nnx
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AbstractDevice

from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.layers import over_layers, saving
from redco_runtime.nn.products import FORMS, multiply, quantize, quantize_products

X, W = (
    jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(4, 6, 32), (32, 16)])
)


@pytest.fixture(autouse=True)
def _mesh():
    with jax.set_mesh(make_mesh({"data": -1})):
        yield


def on(platform):
    """A mesh of devices that are not here: what is traced is for them."""
    device = AbstractDevice("", num_cores=None, platform=platform)
    mesh = jax.sharding.get_abstract_mesh().update(abstract_device=device)
    return jax.sharding.use_abstract_mesh(mesh)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_a_cpu_rounds_to_the_codes_of_a_gpu(name):
    """Over all exponents, so that some are below the smallest normal number."""
    random = np.random.default_rng(0)
    values = random.normal(size=20_000) * 2.0 ** -random.integers(0, 40, 20_000)
    values = values.astype(np.float32)
    codes, scale = jax.jit(quantize, static_argnums=1)(jnp.asarray(values), getattr(jnp, name))
    assert codes.dtype == jnp.float32 and scale * float(jnp.finfo(name).max) == pytest.approx(
        np.abs(values).max()
    )
    cast = (values / np.float32(scale)).astype(getattr(ml_dtypes, name)).astype(np.float32)
    np.testing.assert_array_equal(codes, cast)


def test_nothing_and_what_is_not_finite_stay_so():
    for codes in (jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int8):
        assert not quantize(jnp.zeros(4), codes)[0].any()
        assert jnp.isnan(jnp.prod(jnp.stack(quantize(jnp.array([1.0, jnp.nan]), codes)[0]))).all()
    assert not jnp.isfinite(multiply(FORMS["float8"], X.at[0, 0, 0].set(jnp.inf), W)).all()


@pytest.mark.parametrize(("products", "error"), [("float8", 0.04), ("int8", 0.02)])
def test_values_and_gradients_are_near_those_of_the_product(products, error):
    slope = jax.random.normal(jax.random.key(2), (4, 6, 16))
    ours, ours_back = jax.vjp(partial(multiply, FORMS[products]), X, W)
    plain, plain_back = jax.vjp(jnp.matmul, X, W)
    for a, b in zip((ours, *ours_back(slope)), (plain, *plain_back(slope)), strict=True):
        off = jnp.linalg.norm(a - b) / jnp.linalg.norm(b)
        assert 1e-4 < off < 2 * error


@pytest.mark.parametrize(
    ("platform", "products", "saved", "times"),
    [
        ("gpu", "float8", "float8_e4m3fn", {"float8_e4m3fn": 2, "float8_e5m2": 1, "int32": 0}),
        ("tpu", "int8", "int8", {"int8": 3, "int32": 2}),
    ],
)
def test_what_is_saved_and_sent_is_codes(platform, products, saved, times):
    x, w = X.astype(jnp.bfloat16), W.astype(jnp.bfloat16)
    with on(platform):
        forward = partial(jax.vjp, partial(multiply, FORMS[products]))
        arrays = jax.tree.leaves(jax.eval_shape(lambda x, w: forward(x, w)[1], x, w))
        step = jax.grad(lambda x, w: multiply(FORMS[products], x, w).sum(), argnums=(0, 1))
        text = str(jax.make_jaxpr(step)(x, w))
    assert {str(a.dtype) for a in arrays if a.size > 32} == {saved}
    assert times == {
        codes: len(re.findall(rf"(?:new_d|element_)type={codes}\b", text)) for codes in times
    }


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.up, self.router = nnx.Linear(8, 8, rngs=rngs), nnx.Linear(8, 8, rngs=rngs)

    def __call__(self, x):
        return checkpoint_name(self.router(jnp.sin(self.up(x))), "h")


class Net(nnx.Module):
    def __init__(self, rngs):
        create = nnx.vmap(Layer)
        self.layers = nnx.split_rngs(splits=3)(create)(rngs)
        self.head = nnx.Linear(8, 8, rngs=rngs)

    def __call__(self, x, remat):
        @over_layers(remat)
        def run(layer, x):
            return layer(x)

        return self.head(run(self.layers, x))


def test_the_head_and_the_router_stay():
    model = Net(nnx.Rngs(0))
    plain = model.head.dot_general
    assert quantize_products("float8")(model) is model
    others = [model.head.dot_general, model.layers.router.dot_general]
    assert others == [plain, plain] and model.layers.up.dot_general is not plain
    same = quantize_products("compute")(Net(nnx.Rngs(0)))
    assert same.layers.up.dot_general is plain


@pytest.mark.parametrize("products", FORMS)
def test_layers_in_a_loop_written_out_and_computed_again_have_the_same_gradients(products):
    quantized = quantize_products(products)

    def gradients(remat, written_out=False):
        def loss(params, x):
            model = quantized(nnx.merge(graph, params))
            with saving(("h",), written_out):
                return jnp.sum(model(x, remat) ** 2)

        return jax.jit(jax.grad(loss))(params, x)

    x = X[..., :8]
    graph, params = nnx.split(Net(nnx.Rngs(0)), nnx.Param)
    first = gradients("everything_saveable")
    for other in (gradients("nothing_saveable"), gradients("fit", True), gradients("fit")):
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), other, first)


@pytest.mark.parametrize(
    ("products", "kind", "capability", "has"),
    [
        ("float8", "NVIDIA H100 80GB HBM3", "9.0", True),
        ("float8", "NVIDIA L40S", "8.9", True),
        ("float8", "NVIDIA A100-SXM4-40GB", "8.0", False),
        ("float8", "TPU v5", None, False),
        ("int8", "TPU v6 lite", None, True),
        ("int8", "TPU v4", None, False),
        ("int8", "NVIDIA H100 80GB HBM3", "9.0", False),
        ("compute", "TPU v4", None, True),
    ],
)
def test_devices_without_them_are_refused_by_name(products, kind, capability, has, monkeypatch):
    device = SimpleNamespace(platform="other", device_kind=kind)
    if capability:
        device.compute_capability = capability
    mesh = SimpleNamespace(devices=np.array([device]))
    monkeypatch.setattr(jax.sharding, "get_mesh", lambda: mesh)
    if has:
        quantize_products(products)
        return
    with pytest.raises(UserError, match=f"--products {products}: {kind} has none; float8: NVIDIA"):
        quantize_products(products)
