"""Actors beside the learner: rounds that are played, resumed, played again; environments; held-out ones."""

import builtins
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_new.generate.rollouts import imagine
from redco_runtime.actors import environments
from redco_runtime.actors.rounds import History
from redco_runtime.actors.playing import Playing, play
from redco_runtime.actors.rounds import Rounds
from redco_runtime.base.messages import UserError
from redco_runtime.layout.mesh import make_mesh

ROWS = 4


class Pipeline:
    """Rows are what predict makes of examples, twice; a step learns from one of two parts of each."""

    calls = 0

    def collate(self, examples):
        return {"x": np.stack(examples)}

    def rollout(self, config, examples, predict, explore):
        Pipeline.calls += 1
        outputs = predict([np.float32(x) for x in examples])
        again = predict(list(outputs))
        return [{"x": np.stack(pair)} for pair in zip(outputs, again, strict=True)]

    def minibatches(self, config, rollouts, rng):
        while True:
            for i in rng.permutation(2):
                yield [sum(rows[place]["x"][i] for rows in rollouts) for place in range(ROWS)]

    def decode(self, config, outputs, examples):
        return [
            f"{example}: {x.tolist()}" for x, example in zip(outputs["x"], examples, strict=True)
        ]


@pytest.fixture
def run(tmp_path):
    fields = {"steps": 9, "batch_size": ROWS, "seed": 0, "round_steps": 3, "replay_rounds": 2}
    train = SimpleNamespace(**fields)
    return SimpleNamespace(workdir=tmp_path, config=SimpleNamespace(train=train))


def steps():
    mesh = make_mesh({"data": 2, "fsdp": 1, "model": 1}, jax.devices()[:2])
    predict = jax.jit(
        lambda model, batch, key: model * batch["x"], out_shardings=NamedSharding(mesh, P())
    )
    return SimpleNamespace(batch=NamedSharding(mesh, P("data")), predict=predict)


def state(step):
    """That of a run whose only parameter counts its steps."""
    return SimpleNamespace(step=step, model=jnp.float32(1 + step))


def batches(run, start, stop, pipeline=None):
    """The batches of steps `start` to `stop - 1`, each by the parameters of the round that it is in."""
    rounds = Rounds(range(100), pipeline or Pipeline(), steps(), run, state(start))
    values = [np.asarray(rounds.peek()["x"])]
    for step in range(start, stop):
        values.append(np.asarray(next(rounds)["x"]))
        rounds.follow(state(step + 1))
    np.testing.assert_array_equal(values[0], values[1])
    return values[1:]


def test_a_round_is_played_with_the_parameters_that_it_begins_with(run):
    values = batches(run, 0, 6)
    firsts = [sorted(x[0] for x in values[i : i + 2]) for i in (0, 3)]
    one, two = (
        Rounds(range(100), Pipeline(), steps(), run, state(0)).indices(i)[0] for i in (0, 3)
    )
    assert firsts[0] == [one, one]  # the parameter is 1
    assert firsts[1] == [
        one + 4 * two,
        one + 16 * two,
    ]  # it is 4, and the round before is learned from too
    assert sorted(path.name for path in (run.workdir / "rounds").iterdir()) == ["0", "1"]


@pytest.mark.parametrize("stop", [3, 4])
def test_a_resumed_run_takes_the_same_steps(run, stop):
    straight = batches(run, 0, 9)
    batches(run, 0, stop)
    Pipeline.calls = 0
    np.testing.assert_array_equal(batches(run, stop, 9), straight[stop:])
    assert Pipeline.calls == (2 if stop == 3 else 1)  # what was begun is read
    for path in (run.workdir / "rounds" / "1").iterdir():
        path.write_bytes(b"")
    assert len(batches(run, 4, 5)) == 1  # what cannot be read is played again


def test_rounds_end_with_the_run(run):
    rounds = Rounds(range(100), Pipeline(), steps(), run, state(8))
    assert len([*rounds]) == 1 and rounds.count == ROWS


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("minibatches", lambda config, rollouts, rng: iter(()), "ends after 0 of a round"),
        ("rollout", lambda config, examples, predict, explore: [], "0 rows for 4 examples"),
    ],
)
def test_what_is_no_round_is_refused(run, method, value, message):
    pipeline = Pipeline()
    setattr(pipeline, method, value)
    with pytest.raises(UserError, match=message):
        batches(run, 0, 1, pipeline)


@pytest.mark.parametrize("name", ["round_steps", "replay_rounds"])
def test_settings_that_no_round_can_have(run, name):
    setattr(run.config.train, name, 0)
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')}: give a number above 0"):
        batches(run, 0, 1)


def test_held_out_examples_are_played(run):
    inference = Playing(steps(), Pipeline(), run.config)
    texts = inference.predict(jnp.float32(2), [3, 4, 5, 6, 7])
    assert texts == [f"{x}: [{2.0 * x}, {4.0 * x}]" for x in (3, 4, 5, 6, 7)]
    rows = play(Pipeline(), run.config, steps(), jnp.float32(2), [3])
    assert [row["x"].tolist() for row in rows] == [[6, 12]]


def test_an_evaluation_plays_the_same_once(run):
    inference, model = Playing(steps(), Pipeline(), run.config), jnp.float32(2)
    Pipeline.calls = 0
    once, again = (inference.outputs(model, [3, 4]) for _ in range(2))
    assert Pipeline.calls == 1
    np.testing.assert_array_equal(once["x"], again["x"])
    other = inference.outputs(model + 1, [3, 4])["x"]
    assert Pipeline.calls == 2 and (other != once["x"]).all()
    inference.outputs(model, [3, 5])
    assert Pipeline.calls == 3


def test_rounds_that_are_no_longer_learned_from_are_deleted(tmp_path):
    history = History(tmp_path, [0, 2], rounds=1)
    for turn in range(3):
        history.write(turn, [{"x": np.array([turn])}, {"x": np.array([5])}])
    assert [row["x"].tolist() for row in history.read(2)] == [[2], [5]]
    assert history.read(1) is None


class Corridor:
    """Three moves to the right end an episode; each costs 1. Its limit of time is four moves."""

    def reset(self, seed=None):
        self.at, self.time = seed or 0, 0
        return np.float32(self.at), {}

    def step(self, action):
        self.at, self.time = self.at + action, self.time + 1
        return np.float32(self.at), -1.0, self.at == 3, self.time == 4, {}

    def close(self):
        pass


def test_environments_begin_anew_where_an_episode_ends(monkeypatch):
    monkeypatch.setattr(environments, "open_environment", lambda name: Corridor())
    with pytest.raises(UserError, match="--round-length: 0 actions: give a number above 0"):
        environments.play_environments("x", [0, 1], 0, lambda states: [1, 0])
    rows = environments.play_environments("x", [0, 1], 5, lambda states: [1, 0])
    assert rows[0]["observation"].tolist() == [0, 1, 2, 0, 1]
    assert rows[0]["next_observation"].tolist() == [1, 2, 3, 1, 2]
    assert rows[0]["terminated"].tolist() == rows[0]["done"].tolist() == [0, 0, 1, 0, 0]
    assert rows[1]["done"].tolist() == [0, 0, 0, 1, 0] and not rows[1]["terminated"].any()
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    assert environments.first_returns(stacked["reward"], stacked["done"]).tolist() == [-3, -4]


def test_environments_need_gymnasium(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "gymnasium":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="--environment: .* pip install gymnasium"):
        environments.open_environment("CartPole-v1")


def test_an_environment_that_is_not_there_is_named():
    pytest.importorskip("gymnasium")
    with pytest.raises(
        UserError, match="--environment: Nowhere-v0 cannot be made: .*doesn't exist"
    ):
        environments.open_environment("Nowhere-v0")


@pytest.mark.parametrize(
    ("name", "sizes", "choices"),
    [("CartPole-v1", (6, 2), True), ("CartPole-v1", (4, 2), False), ("Pendulum-v1", (3, 1), True)],
)
def test_an_environment_must_fit_the_model(name, sizes, choices):
    pytest.importorskip("gymnasium")
    with pytest.raises(
        UserError, match=f"--environment: {name} has observations .* give other --inputs"
    ):
        environments.check_environment(name, *sizes, choices)


def test_environments_that_fit():
    pytest.importorskip("gymnasium")
    environments.check_environment("CartPole-v1", 4, 2, choices=True)
    environments.check_environment("Pendulum-v1", 3, 1, choices=False)


def test_what_a_rollout_would_give_is_imagined():
    def shapes_of(batch):
        return jax.ShapeDtypeStruct(batch["x"].shape, "float32")

    rows = imagine(Pipeline(), None, range(ROWS), shapes_of)
    assert rows == [0.0] * ROWS and rows[0].shape == ()
