"""Adapters that are trained at once: each takes the steps of one that is trained alone."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.base.state import ModelState, flatten, new_state
from redco_runtime.layout.mesh import make_mesh
from redco_runtime.nn.adapters.layers import LoraSettings
from redco_runtime.step import stack
from redco_runtime.step.guard import take_step
from redco_runtime.step.stack import OWN, Adapters
from redco_runtime.step.sweep import Sweep

IN, OUT, STEPS = 4, 3, 5
MESH = {"data": 1, "fsdp": 1, "expert": 1, "model": 1}
BATCH = jnp.asarray(np.random.default_rng(0).normal(size=(6, IN)), jnp.float32)


@dataclass(frozen=True)
class Decayed:
    """An optimizer's section of config.py."""

    learning_rate: Any = 0.002
    algorithm: str = "sgd"

    def schedule(self, steps):
        return lambda step: self.learning_rate * 0.5**step

    def transform(self, steps):
        return optax.sgd(self.schedule(steps))


def config(at_once=1, **sweep):
    return SimpleNamespace(
        sweep=Sweep(adapters_at_once=at_once, **sweep),
        lora=LoraSettings(2, 4.0),
        optimizer=Decayed(),
        train=SimpleNamespace(seed=5),
    )


EVERY = {"learning_rates": (0.002, 0.004), "seeds": (1, 2), "ranks": (1, 2)}


def init(key, lora):
    """The state of one: its B is no zero, so that its A learns from the first step on."""
    a, b = jax.random.split(key)
    params = {
        "q": {
            "lora_a": jax.random.normal(a, (IN, lora.lora_rank)),
            "lora_b": jax.random.normal(b, (lora.lora_rank, OUT)),
        }
    }
    frozen = {"q": {"kernel": jax.random.normal(key, (IN, OUT))}}
    return new_state(
        ModelState(params, {"seen": jnp.zeros(())}, frozen), Decayed().transform(STEPS)
    )


def loss_of(lora):
    def loss(model, batch, key):
        q = {**model.params["q"], **model.frozen["q"]}
        added = lora.scale * batch @ q["lora_a"] @ q["lora_b"]
        y = batch @ q["kernel"] + added + jax.random.normal(key, (len(batch), 1))
        return jnp.square(y).mean(axis=1), model.variables

    return loss


def step_of(loss):
    def train(state, batch, own):
        key = jax.random.fold_in(own.key, state.step)

        def mean(params):
            model = state.model._replace(params=params)
            return own.scale_loss(loss)(model, batch, key)[0].mean()

        rule, schedule = own.rule(Decayed(), STEPS)
        value, grads = jax.value_and_grad(mean)(state.params)
        updates, opt_state = rule.update(grads, state.opt_state, state.params)
        changes = {
            "params": optax.apply_updates(state.params, updates),
            "opt_state": opt_state,
            "variables": {"seen": state.variables["seen"] + 1},
        }
        norm = optax.tree.norm(grads)
        values = {"loss": value, "grad_norm": norm, "rate": schedule(state.step)}
        return take_step(state, changes, values, 0.0)

    return train


def run(settings):
    """The state of all after STEPS, and what the last one gave."""
    adapters = Adapters(settings)
    train = adapters.train(step_of(loss_of(settings.lora)))
    state, step = adapters.init(init)(jax.random.key(7)), jax.jit(train)
    for _ in range(STEPS):
        state, values = step(state, BATCH)
    return adapters, state, values


@pytest.fixture(scope="module")
def every():
    return run(config(**EVERY))


def test_each_takes_the_steps_of_one_alone(every):
    adapters, state, values = every
    assert adapters.count == 8 and int(state.step) == STEPS
    losses = []
    for row in adapters.rows:
        own = {"learning_rates": (row.learning_rate,), "seeds": (row.seed,), "ranks": (row.rank,)}
        alone = config(**own)
        alone.lora = replace(alone.lora, lora_rank=row.rank)
        _, one, value = run(alone)
        q = {name: x[row.number] for name, x in state.params["q"].items()}
        np.testing.assert_allclose(q["lora_a"][:, : row.rank], one.params["q"]["lora_a"][0], 1e-5)
        np.testing.assert_allclose(q["lora_b"][: row.rank], one.params["q"]["lora_b"][0], 1e-5)
        assert not q["lora_a"][:, row.rank :].any() and not q["lora_b"][row.rank :].any()
        assert values[f"adapter_{row.number}/rate"] == value["rate"]
        losses.append(float(value["loss"]))
    np.testing.assert_allclose(values["loss"], min(losses), 1e-5)
    assert int(values["adapter"]) == losses.index(min(losses)) and bool(values["sound"])
    np.testing.assert_array_equal(state.variables["seen"], [STEPS] * 8)
    first = init(jax.random.key(7), adapters.lora)  # what is frozen is there once, of the run's key
    np.testing.assert_array_equal(state.frozen["q"]["kernel"], first.frozen["q"]["kernel"])


@pytest.mark.parametrize("at_once", [2, 8])
def test_several_at_once_are_the_same(every, at_once):
    _, expected, _ = every
    _, state, _ = run(config(at_once, **EVERY))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-6), state, expected)


def test_one_scale_of_all_is_none_and_rates_are_there_once():
    own = Adapters(config(seeds=(1, 2), learning_rates=(0.1, 0.2)))._settings()
    assert own.scale is None and own.rates == (0.1, 0.2) and own.rate.tolist() == [0, 0, 1, 1]
    assert own.scale_loss(step_of) is step_of
    scaled = Adapters(config(ranks=(1, 2)))._settings()
    assert scaled.scale.tolist() == [2, 1]  # alpha / rank, of that of the largest


def test_the_loss_of_all_has_the_rows_first(every):
    adapters, state, _ = every
    loss = loss_of(adapters.lora)
    losses, variables = adapters.loss(loss)(state.model, BATCH, jax.random.key(0))
    assert losses.shape == (6, 8) and float(variables["seen"]) == STEPS
    one = state.model._replace(
        params=jax.tree.map(lambda x: x[3], state.params), variables={"seen": jnp.zeros(())}
    )
    np.testing.assert_allclose(losses[:, 3], loss(one, BATCH, jax.random.key(0))[0], 1e-5)


@pytest.mark.parametrize("number", [2, 3])  # of rank 1, and of the largest
def test_one_of_them_is_a_model_of_its_own(every, number):
    adapters, state, _ = every
    with jax.set_mesh(make_mesh(MESH, jax.devices()[:1])) as _:
        place = NamedSharding(jax.sharding.get_mesh(), P())
        model = jax.device_put(state.model, place)
        rank, scale = adapters.rows[number].rank, adapters.rows[number].scale
        chosen, cut = adapters.select(model, number), adapters.cut(model, number)
    q = {name: x[number] for name, x in state.params["q"].items()}
    np.testing.assert_array_equal(chosen.params["q"]["lora_a"], q["lora_a"])
    np.testing.assert_array_equal(chosen.params["q"]["lora_b"], scale * q["lora_b"])
    np.testing.assert_array_equal(cut.params["q"]["lora_a"], q["lora_a"][:, :rank])
    np.testing.assert_array_equal(cut.params["q"]["lora_b"], q["lora_b"][:rank])
    assert chosen.frozen is model.frozen and float(chosen.variables["seen"]) == STEPS
    shapes = {path: jax.eval_shape(lambda x=x: x) for path, x in model.arrays.items()}
    found = adapters.cut_shapes(shapes, flatten(model.params), number)
    assert found["q/lora_a"].shape == (IN, rank) and found["q/lora_b"].shape == (rank, OUT)
    assert found["q/kernel"].shape == (IN, OUT)


def test_shapes_and_room_are_those_of_all(monkeypatch):
    adapters = Adapters(config(2, seeds=(1, 2, 3, 4)))
    monkeypatch.setattr(stack, "room", lambda used: 10_000 - used)
    with jax.set_mesh(make_mesh(MESH | {"data": 2}, jax.devices()[:2])):
        place = NamedSharding(jax.sharding.get_mesh(), P("data"))
        like = jax.eval_shape(lambda: init(jax.random.key(0), adapters.lora))
        split = jax.tree.map(
            lambda x: x.update(sharding=place if x.ndim else NamedSharding(place.mesh, P())), like
        )
        every = adapters.stack(split)
        one, own = (
            sum(x.size * x.dtype.itemsize // (2 if x.ndim else 1) for x in jax.tree.leaves(tree))
            for tree in (split.params, [getattr(split, name) for name in OWN])
        )
        rest = 4 + IN * OUT * 4 // 2  # the number of the step, and what is frozen
        for micro_batches, copies in ((1, 1), (2, 2)):
            room = adapters.room(split, 100, micro_batches)
            assert room == (10_000 - (4 * own + rest + 2 * copies * one + 100)) // 2
    assert every.params["q"]["lora_a"].shape == (4, IN, 2)
    assert every.params["q"]["lora_a"].sharding.spec == P(None, "data")
    assert every.step.shape == () and every.frozen["q"]["kernel"].shape == (IN, OUT)
    shapes = adapters.shapes(like.model)
    assert shapes["q/lora_b"].shape == (4, 2, OUT) and shapes["q/kernel"].shape == (IN, OUT)
