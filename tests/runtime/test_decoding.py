"""A model for a loop over tokens: what it reads, and in which form."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from redco_runtime.nn.decoding import for_tokens
from redco_runtime.nn.decoding import each_layer, unstack

L, B, D = 3, 2, 4


class Words(nnx.Module):
    """A table and a layer in bfloat16, and a norm in float32."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.config = SimpleNamespace(dtype="bfloat16")
        self.embed = nnx.Embed(8, 4, rngs=rngs)
        self.up = nnx.Linear(4, 6, dtype=jnp.bfloat16, rngs=rngs)
        self.down = nnx.Linear(6, 4, rngs=rngs)
        self.ln = nnx.RMSNorm(4, rngs=rngs)

    def __call__(self, ids):
        rows = self.embed.embedding[...][ids].astype(jnp.bfloat16)
        return self.ln(self.down(self.up(rows).astype(jnp.float32)))


def test_what_is_computed_in_few_bits_lies_in_them_once():
    model = Words()
    rounded = for_tokens(model)
    by_path = nnx.to_flat_state(nnx.state(rounded))
    found = {"/".join(path): variable[...].dtype.name for path, variable in by_path}
    assert found.pop("embed/embedding") == found.pop("up/kernel") == "bfloat16"
    assert {*found.values()} == {"float32"}
    assert model.up.kernel[...].dtype == model.embed.embedding[...].dtype == jnp.float32
    ids = jnp.arange(8)
    np.testing.assert_array_equal(rounded(ids), model(ids))


class Stacked(nnx.Module):
    """Layers of which each has a number of its own."""

    def __init__(self, dtype):
        make = nnx.vmap(lambda rngs: nnx.Linear(D, D, dtype=dtype, rngs=rngs))
        self.layers = nnx.split_rngs(splits=L)(make)(nnx.Rngs(0))

    def unstacked(self):
        model = nnx.clone(self)
        model.layers = unstack(self.layers)
        return model

    def __call__(self, x_BD, numbers_L):
        @each_layer
        def run(layer, x_BD, i, number):
            return jnp.sin(layer(x_BD)).astype(x_BD.dtype) * number + i

        return run(self.layers, x_BD, numbers_L)


@pytest.mark.parametrize(
    ("dtype", "apart"), [("bfloat16", True), ("float32", False), (None, False)]
)
def test_layers_that_are_rounded_are_apart_and_give_the_same(dtype, apart):
    model, inputs = Stacked(dtype), (jnp.ones((B, D)), jnp.arange(1.0, L + 1))
    reader = for_tokens(model)
    assert isinstance(reader.layers, nnx.List) == apart
    kernels = jax.tree.leaves(nnx.state(reader, lambda path, _: "kernel" in path))
    assert {x.dtype.name for x in kernels} == {dtype or "float32"}
    np.testing.assert_allclose(reader(*inputs), model(*inputs), rtol=1e-2)
    assert not isinstance(model.layers, nnx.List)
