"""Layers in stages, beside the same layers in one loop on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from redco_runtime.base.errors import UserError
from redco_runtime.layout.activations import lay_out, layouts
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.stages import over_stages

B, S, D, L = 16, 3, 8, 8
TABLE = {"x_BSD": P(("stage", "data"), None, None), "h_BSD": P(("stage", "data"), None, "model")}


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
