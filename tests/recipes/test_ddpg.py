"""The recipe ddpg: actions within the limits of the environment, whichever these are."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import pipeline

from redco_runtime.actors.environments import action_limits
from redco_runtime.base.messages import UserError

gymnasium = pytest.importorskip("gymnasium")
ddpg = pipeline("ddpg")
LOW, HIGH = [-1.0, 2.0], [0.5, 3.0]


class Plane(gymnasium.Env):
    """Moments that are all alike; it refuses actions that it has not."""

    def __init__(self, low=LOW, high=HIGH):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        self.action_space = gymnasium.spaces.Box(np.float32(low), np.float32(high))

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.ones(3, np.float32), float(action.sum()), False, False, {}


gymnasium.register("Plane-v0", entry_point=Plane, max_episode_steps=4)
gymnasium.register("Endless-v0", entry_point=Plane, kwargs={"low": LOW, "high": [1.0, np.inf]})


def config(name, limit=0.0):
    data = SimpleNamespace(environment=name, round_length=6, minibatch_length=4, held_out=2)
    sizes = SimpleNamespace(inputs=3, outputs=2)
    return SimpleNamespace(data=data, train=SimpleNamespace(action_limit=limit), model=sizes)


def models(value):
    """Networks whose actor says one number, of whatever it sees."""
    actor = lambda x: jnp.full((*x.shape[:-1], 2), value)  # noqa: E731
    critic = lambda x: x.sum(axis=-1, keepdims=True)  # noqa: E731
    return SimpleNamespace(actor=actor, target_actor=actor, target_critic=critic)


@pytest.mark.parametrize("value", [-9.0, 0.0, 0.3, 9.0])
@pytest.mark.parametrize("explore", [True, False])
def test_what_is_played_and_learned_is_within_the_limits(value, explore):
    """Plane.step refuses what is not."""

    def predict(rows):
        rngs = lambda: jax.random.key(int(rows[0]["observation"].sum()))  # noqa: E731
        batch = jax.tree.map(jnp.asarray, ddpg.collate(rows))
        return jax.device_get(ddpg.predict(models(value), batch, rngs))

    rows = ddpg.rollout(config("Plane-v0"), [0, 1], predict, explore)
    low, high = np.array(LOW), np.array(HIGH)
    expected = (low + high) / 2 + (high - low) / 2 * np.tanh(value)
    if not explore:
        np.testing.assert_allclose(rows[0]["action"], np.tile(expected, (6, 1)), rtol=1e-6)
    made = next(ddpg.minibatches(config("Plane-v0"), [rows], np.random.default_rng(0)))
    limits = jnp.asarray(ddpg.collate(made)["limits"])
    assert limits.shape == (2, 4, 2, 2)
    learned = ddpg.act(models(value).actor, jnp.zeros((2, 4, 3)), limits)
    np.testing.assert_allclose(learned, np.broadcast_to(expected, (2, 4, 2)), rtol=1e-6)


def test_a_run_goes_on_with_rounds_from_before_they_had_limits():
    rows = [{"reward": np.ones(3, np.float32), "action": np.ones((3, 2), np.float32)}]
    newer = [ddpg.with_limits(rows[0], ddpg.limits_of(config("Plane-v0")))]
    made = next(ddpg.minibatches(config("Plane-v0"), [rows, newer], np.random.default_rng(0)))
    assert made[0]["limits"].shape == (4, 2, 2) and made[0]["action"].shape == (4, 2)


def test_limits_of_its_own_are_as_they_were():
    """Of a run from before: bit by bit, in either direction."""
    limits = action_limits("Pendulum-v1", 2.0)
    assert (limits == action_limits("Pendulum-v1")).all()
    x = jnp.linspace(-3, 3, 14).reshape(7, 2)
    tiled = jnp.asarray(np.tile(limits, (7, 1, 1)))
    assert (ddpg.act(lambda x: x, x, tiled) == 2.0 * jnp.tanh(x)).all()


def test_actions_without_limits_need_one(capsys):
    with pytest.raises(UserError, match="Endless-v0 has actions .* give --action-limit"):
        ddpg.examples(config("Endless-v0"))
    action_limits.cache_clear()
    ddpg.examples(config("Endless-v0", 0.5))
    assert action_limits("Endless-v0", 0.5).tolist() == [[-0.5, -0.5], [0.5, 0.5]]
    assert "note: --action-limit 0.5: Endless-v0 takes actions" in capsys.readouterr().out
