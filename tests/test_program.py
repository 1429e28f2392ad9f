"""The computation that a layout is derived from, of whatever a loss returns."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from redco_new.models.branches import Branch, trained_filter, trained_parameters
from redco_new.models.program import Program
from redco_plan import plan_sharding


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


class Pair(nnx.Module):
    """Two models, one of which can be frozen."""

    def __init__(self):
        self.student, self.teacher = (nnx.Linear(4, 8, rngs=nnx.Rngs(0)) for _ in range(2))


def test_a_branch_that_is_frozen_is_so_in_the_program_and_in_the_project():
    branches = (Branch("student"), Branch("teacher", frozen=True))
    printed = eval(trained_filter(branches), {"nnx": nnx})
    for trained in (trained_parameters(branches), printed):
        program = Program(Pair, None, None, trained=trained)
        assert program.frozen == {"teacher/kernel", "teacher/bias"}
    assert trained_parameters(branches[:1]) is nnx.Param


def test_losses_that_a_dict_has_are_traced_too():
    def loss(models, x, rngs):
        student, teacher = (model(x).sum(-1) for model in (models.student, models.teacher))
        return student, jnp.ones_like(student), {"other": (teacher.mean(), 0.5)}

    program = Program(Pair, loss, None)
    params = jax.tree.map(lambda x: jnp.ones(x.shape), program.params)
    grads = jax.grad(lambda params: program.forward(params, jnp.ones((2, 4))).sum())(params)
    assert grads["student"]["kernel"].all() and grads["teacher"]["kernel"].all()
