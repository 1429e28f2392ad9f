"""Layers in a loop and written out: the same values, and as much of it computed again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from redco_runtime.layout.activations import lay_out
from redco_runtime.nn.layers import over_layers, saving
from redco_runtime.layout.mesh import make_mesh

L, B, D, F = 3, 4, 8, 16


class Layer(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(D, F, rngs=rngs)
        self.down = nnx.Linear(F, D, rngs=rngs)

    def __call__(self, x_BD):
        u_BF = lay_out(self.up(x_BD), "u_BF")
        return x_BD + jnp.sin(lay_out(self.down(jnp.tanh(u_BF)), "y_BD"))


def make_layers():
    return nnx.split_rngs(splits=L)(nnx.vmap(Layer))(nnx.Rngs(0))


GRAPH, PARAMS = nnx.split(make_layers())


def make_loss(names, written_out, remat="fit", **parts):
    axes = {"in_axes": (0, nnx.Carry, 0), "out_axes": (nnx.Carry, 0), **parts}

    def loss(params, x_BD):
        @over_layers(remat, **axes)
        def run(layer, x_BD, factor):
            x_BD = layer(factor * x_BD)
            return x_BD, x_BD.mean()

        with saving(names, written_out):
            x_BD, means_L = run(nnx.merge(GRAPH, params), x_BD, jnp.arange(1.0, L + 1))
        return jnp.square(x_BD).sum() + means_L.sum()

    return loss


def lowered(names, written_out, **parts):
    """The gradients for the mesh in place, and an input."""
    x_BD = jnp.linspace(-1, 1, B * D).reshape(B, D)
    step = jax.jit(jax.value_and_grad(make_loss(names, written_out, **parts)))
    return step.lower(PARAMS, x_BD), x_BD


def mesh_of(axis):
    return make_mesh({"data": 1, "fsdp": 1, axis: 2}, jax.devices()[:2])


@pytest.mark.parametrize("names", [(), ("u_BF", "y_BD")], ids=["again", "saved"])
def test_written_out_they_give_what_a_loop_gives(names):
    with jax.set_mesh(mesh_of("fsdp")):
        loop, x_BD = lowered(names, written_out=False)
        written, _ = lowered(names, written_out=True)
        results = [jax.tree.leaves(step.compile()(PARAMS, x_BD)) for step in (loop, written)]
    assert "stablehlo.while" in loop.as_text() and "stablehlo.while" not in written.as_text()
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", ["data", "fsdp"])
def test_written_out_what_is_made_again_is_kept_apart(axis):
    with jax.set_mesh(mesh_of(axis)):
        text = lowered((), written_out=True)[0].as_text()
    barriers = [line for line in text.splitlines() if "optimization_barrier" in line]
    assert barriers and all(f"tensor<{B}x{D}xf32>" in line for line in barriers)
    # Of parameters too where they are gathered, so that a layer's are there in its turn only.
    assert all((f"tensor<{D}x{F}xf32>" in line) == (axis == "fsdp") for line in barriers)


@pytest.mark.parametrize("axis", ["data", "fsdp"])
def test_experts_that_are_sent_are_in_a_loop(axis):
    with jax.set_mesh(mesh_of(axis)):
        text = lowered(("u_BF", "y_BD"), written_out=True, experts=True)[0].as_text()
    assert ("stablehlo.while" in text) == (axis == "fsdp")


@pytest.mark.parametrize("capped", [False, True])
def test_layers_whose_scores_have_a_cap_are_in_a_loop(capped):
    with jax.set_mesh(mesh_of("data")):
        text = lowered(("u_BF", "y_BD"), written_out=True, capped=capped)[0].as_text()
    assert ("stablehlo.while" in text) == capped


def test_what_enters_layers_is_kept_in_the_hosts_memory():
    x_BD = jnp.linspace(-1, 1, B * D).reshape(B, D)
    steps = [
        jax.jit(jax.value_and_grad(make_loss((), written_out=False, remat=remat)))
        for remat in ("nothing_saveable", "offload")
    ]
    with jax.set_mesh(mesh_of("fsdp")):
        results = [jax.tree.leaves(step(PARAMS, x_BD)) for step in steps]
        moved = ["Host" in str(step.trace(PARAMS, x_BD).jaxpr) for step in steps]
    assert moved == [False, True]  # on a CPU they are one memory: bit-equal, and nothing moves
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)
