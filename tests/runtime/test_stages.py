"""Layers in stages, beside the same layers in one loop on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from redco_runtime.base.messages import UserError
from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.experts.expert_rows import PRODUCTS
from redco_runtime.nn.experts.experts import expert_load, experts, router_loss
from redco_runtime.nn.stages import over_stages

B, S, D, L = 16, 3, 8, 8
TABLE = {"x_BSD": P(("stage", "data"), None, None), "h_BSD": P(("stage", "data"), None, "model")}
TABLE |= {f"layers/{name}/kernel": P("stage", None, None) for name in ("up", "down")}
TABLE |= {f"layers/{name}/bias": P("stage", None) for name in ("up", "down")}


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.up, self.down = nnx.Linear(D, 2 * D, rngs=rngs), nnx.Linear(2 * D, D, rngs=rngs)

    def __call__(self, x_BSD, ids_BS):
        h_BSD = lay_out(jnp.tanh(self.up(x_BSD)) * ids_BS[:, :, None], "h_BSD")
        return lay_out(x_BSD + self.down(h_BSD), "x_BSD")


def step(sizes, rows, repeats, remat="nothing_saveable"):
    """Return (jitted loss and gradients, arguments) on devices of these sizes."""
    layers = nnx.split_rngs(splits=L)(nnx.vmap(Layer))(nnx.Rngs(0))
    graph, params = nnx.split(layers)
    x_BSD = jax.random.normal(jax.random.key(1), (B, S, D))
    ids_BS = jax.random.randint(jax.random.key(2), (B, S), 0, 4)
    run = over_stages(remat, rows, repeats)(lambda layer, x, ids: layer(x, ids))

    def loss(params, x_BSD):
        with layouts(TABLE):
            y_BSD = run(nnx.merge(graph, params), x_BSD, ids_BS)
        return jnp.mean(y_BSD**2 * jnp.arange(B)[:, None, None])

    mesh = {"stage": 1, "data": 1, "model": 1, **sizes}
    devices = jax.devices()[: int(np.prod([*mesh.values()]))]
    return make_mesh(mesh, devices), jax.jit(jax.value_and_grad(loss, (0, 1))), (params, x_BSD)


@pytest.mark.parametrize(
    ("sizes", "rows", "repeats"),
    [
        ({"stage": 4}, 3, 1),  # which do not divide the 4 rows of a device: one row each
        ({"stage": 4}, 4, 2),  # as many micro-batches as stages: none waits to go around again
        ({"stage": 2, "data": 2}, 1, 4),
        ({"stage": 2, "model": 2}, 2, 2),
    ],
    ids=str,
)
def test_stages_learn_what_one_device_does(sizes, rows, repeats):
    results = []
    for mesh in ({}, sizes):
        devices, compute, arguments = step(mesh, rows, repeats)
        with jax.set_mesh(devices):
            results.append(jax.device_get(compute(*arguments)))
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


E, X, FEW = 4, 2, 4  # of as many layers
ROWS, INNER = ("stage", "data", "expert"), P(("stage", "data"), None, "expert", "model")
KERNEL, ROUTER = P("stage", "expert", None, None), P("stage", None, None)
ROUTED = {"x_BSD": P(ROWS, None, None), "h_BSD": P(ROWS, None, None)}
ROUTED |= {"u_BSEF": INNER, "a_BSEF": INNER, "layers/router": ROUTER}
ROUTED |= {f"layers/{name}": KERNEL for name in ("gate", "up", "down")}


class Experts(nnx.Module):
    def __init__(self, rngs):
        shapes = {
            "router": (D, E),
            "gate": (E, D, 2 * D),
            "up": (E, D, 2 * D),
            "down": (E, 2 * D, D),
        }
        for name, shape in shapes.items():
            setattr(self, name, nnx.Param(0.3 * jax.random.normal(rngs.params(), shape)))

    def __call__(self, x_BSD, load_B2E, mask_BS):
        odds_BSE = jax.nn.softmax(x_BSD @ self.router[...])
        _, expert_BSX = jax.lax.top_k(odds_BSE, X)
        kernels = (one[...] for one in (self.gate, self.up, self.down))
        x_BSD = lay_out(x_BSD + experts(x_BSD, odds_BSE, expert_BSX, *kernels), "x_BSD")
        return x_BSD, load_B2E + expert_load(odds_BSE, expert_BSX, mask_BS)


def test_experts_in_stages_learn_what_one_device_does(monkeypatch):
    """A row takes along how often its tokens chose each expert: no tick in which a stage waits counts."""
    monkeypatch.setitem(PRODUCTS, "cpu", PRODUCTS["tpu"])  # as on an accelerator
    graph, params = nnx.split(nnx.split_rngs(splits=FEW)(nnx.vmap(Experts))(nnx.Rngs(0)))
    x_BSD = jax.random.normal(jax.random.key(1), (B, S, D))
    mask_BS = jax.random.bernoulli(jax.random.key(2), 0.7, (B, S))
    run = over_stages("nothing_saveable", 1, 2)(lambda layer, x, mask: layer(*x, mask))

    def loss(params, x_BSD):
        with layouts(ROUTED):
            carry = x_BSD, jnp.zeros((B, 2, E))
            y_BSD, load_B2E = run(nnx.merge(graph, params), carry, mask_BS)
        balance = router_loss(load_B2E[None] / FEW, mask_BS)
        return jnp.mean(y_BSD**2 * jnp.arange(B)[:, None, None]) + 10 * balance, balance

    results = []
    for some in ({}, {"stage": 2, "expert": 2}):
        mesh = {**dict.fromkeys((*ROWS, "model"), 1), **some}
        devices = jax.devices()[: int(np.prod([*mesh.values()]))]
        with jax.set_mesh(make_mesh(mesh, devices)):
            compute = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
            results.append(jax.device_get(compute(params, x_BSD)))
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


def test_a_tick_sends_two_permutes_each_way_and_gathers_nothing_that_has_rows():
    mesh, compute, arguments = step({"stage": 4}, 1, 1)
    with jax.set_mesh(mesh):
        text = compute.lower(*arguments).compile().as_text()
    assert text.count(" collective-permute(") == 4
    assert f"f32[{B},{S},{D}]" not in text


def test_stages_that_do_not_divide_layers_are_named():
    mesh, compute, arguments = step({"stage": 4}, 1, 4)
    with jax.set_mesh(mesh), pytest.raises(UserError, match="4 stages x 4 repeats do not"):
        compute.lower(*arguments)
