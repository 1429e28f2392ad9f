"""Frozen parameters: no gradients, no moments, and written once."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import optax
import pytest

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.step.gradients import mean_and_gradients
from redco_runtime.step.remat import gradient_size, size_on_device
from redco_runtime.base.state import ModelState, new_state
from states import abstract, assert_same, flip_byte

OPTIMIZER = optax.adam(1e-3)


def make(step=0, base=1.0, average=False):
    """A state of 4 trained parameters and of 64 frozen ones beside them."""
    params = {"layer": {"adapter": jnp.full(4, 1.0 * step)}}
    frozen = {"layer": {"kernel": jnp.full((8, 8), base)}}
    state = new_state(ModelState(params, {}, frozen), OPTIMIZER, step, average)
    return jax.device_put(state, jax.devices()[0])


def test_gradients_and_moments_are_those_of_trained_parameters():
    def loss(model, batch, key):
        kernel, adapter = model.frozen["layer"]["kernel"], model.params["layer"]["adapter"]
        return (batch @ kernel).sum() * adapter.sum(), model.variables

    state = make(1)
    compute = partial(mean_and_gradients, loss, micro_batches=2)
    _, grads, _ = compute(state.model, jnp.ones((2, 8)), jax.random.key(0))
    assert grads == {"layer": {"adapter": pytest.approx([64.0] * 4)}}
    assert sum(leaf.size for leaf in jax.tree.leaves(state.opt_state)) == 1 + 2 * 4
    assert gradient_size(abstract(state), 2) == 2 * 4 * 4
    assert size_on_device(abstract(state).frozen) == 64 * 4


@pytest.mark.parametrize("average", [False, True])
def test_what_is_frozen_is_written_once_and_comes_back(tmp_path, average):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, make(step, average=average))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "frozen"]
    assert [path.name for path in (tmp_path / "frozen").iterdir()] == ["0"]
    state = make(3, average=average)
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        step, restored = checkpoints.restore(abstract(state))
        assert step == 3
        assert_same(restored, state)
        checkpoints.save(4, make(4, average=average))
    assert [path.name for path in (tmp_path / "frozen").iterdir()] == ["0"]
    _, model = Checkpoints(tmp_path).restore_model(abstract(state.model))
    assert_same(model, make(4).model)


def test_a_run_that_never_saved_leaves_no_base_to_the_next(tmp_path):
    with Checkpoints(tmp_path / "frozen") as earlier:
        earlier.save(0, make(0, base=5.0).frozen)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(0, make(0, base=7.0))
    _, state = Checkpoints(tmp_path).restore(abstract(make()))
    assert_same(state, make(0, base=7.0))


def test_a_run_whose_reference_was_the_bare_model_goes_on_beside_it(tmp_path):
    """One of before: its adapter that stays, which no checkpoint of it has, adds nothing."""
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make(1))
    copies = {name: jnp.ones((4, 2)) for name in ("lora_a", "lora_b")}
    state = make(1)
    now = replace(state, frozen={**state.frozen, "reference": {"q": copies}})
    _, restored = Checkpoints(tmp_path).restore(abstract(now))
    off = {"q": jax.tree.map(jnp.zeros_like, copies)}
    assert_same(restored, replace(state, frozen={**state.frozen, "reference": off}))
    with pytest.raises(UserError, match="frozen/reference/q/kernel: absent"):
        more = {"q": {"kernel": jnp.ones(4)}}
        Checkpoints(tmp_path).restore(
            abstract(replace(now, frozen={**state.frozen, "reference": more}))
        )


def test_damage_of_what_is_frozen_is_no_state(tmp_path, capsys):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make(1))
    flip_byte(tmp_path / "frozen", 0)
    with pytest.raises(UserError, match=f"no checkpoint in {tmp_path} is intact"):
        Checkpoints(tmp_path).restore(abstract(make()))
    assert f"checkpoint 1 is not used: {tmp_path / 'frozen' / '0'}" in capsys.readouterr().err


def test_a_base_becomes_trained_and_what_was_trained_a_base(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, make(1))
    whole = ModelState({"layer": {"kernel": jnp.zeros((8, 8)), "bias": jnp.zeros(8)}}, {})
    like = abstract(jax.device_put(whole, jax.devices()[0]))
    arrays, unused = Checkpoints(tmp_path).restore_common(like.arrays)
    assert arrays.keys() == {"layer/kernel"} and unused == ["layer/adapter"]
    assert arrays["layer/kernel"].tolist() == jnp.ones((8, 8)).tolist()
