"""The computation that a layout is derived from, of whatever a loss returns."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from redco_new.models.program import Program
from redco_new.sharding import plan_sharding


@pytest.mark.parametrize("reduce", [jnp.sum, lambda x: (x, jnp.ones_like(x))])
def test_a_loss_is_a_scalar_or_losses_with_weights(reduce):
    batch = jax.ShapeDtypeStruct((8, 4), "float32")
    program = Program(
        lambda: nnx.Linear(4, 16, rngs=nnx.Rngs(0)),
        lambda model, x, rngs: reduce(model(x).sum(-1)),
        batch,
    )
    plan = plan_sharding(program.forward, program.params, batch, {"model": 4})
    assert plan.specs["kernel"][1] == "model"
