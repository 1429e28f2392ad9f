"""The loop, on a linear model: what it computes, how often, and what it leaves behind."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime import loop
from redco_runtime.errors import UserError
from redco_runtime.gradients import mean_and_gradients, weighted_sum
from redco_runtime.inference import mean_loss, predict
from redco_runtime.loop import fit
from redco_runtime.mesh import make_mesh
from redco_runtime.run import Run
from redco_runtime.state import TrainState

MESH = {"data": 2, "fsdp": 1, "model": 2}


@dataclass(frozen=True)
class Model:
    width: int = 4


@dataclass(frozen=True)
class Data:
    sample_prompts: tuple[str, ...] = ("p",)


@dataclass(frozen=True)
class Train:
    steps: int = 6
    batch_size: int = 4
    micro_batches: int = 1
    log_every: int = 1
    eval_every: int = 3
    save_every: int = 2
    keep: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Config:
    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    train: Train = field(default_factory=Train)


def examples(n):
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=4).astype(np.float32)} for _ in range(n)]


PIPELINE = SimpleNamespace(
    examples=lambda config: (examples(10), examples(5)),
    prompts=lambda config, texts: examples(len(texts)),
    collate=lambda rows: {"x": np.stack([row["x"] for row in rows])},
    decode=lambda config, outputs, examples: [f"{value:.3f}" for value in outputs],
)


def loss(params, batch, key):
    losses = jnp.square(batch["x"] @ params["w"] - 1.0)
    return losses, jnp.ones_like(losses)


@pytest.fixture
def steps():
    """Steps of a linear model; steps.traced counts how often the train step was traced."""
    traced = []
    with jax.set_mesh(make_mesh(MESH)):
        mesh = jax.sharding.get_mesh()
        rows, whole = NamedSharding(mesh, P(("data", "fsdp"))), NamedSharding(mesh, P())

        def train(state, batch):
            traced.append(1)
            value, grads = mean_and_gradients(loss, state.params, batch, jax.random.key(0), 1)
            params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, grads)
            values = {"loss": value, "learning_rate": 0.1, "grad_norm": jnp.abs(grads["w"]).sum()}
            return TrainState(state.step + 1, params, ()), values

        def abstract(shape, dtype):
            return jax.ShapeDtypeStruct(shape, dtype, sharding=whole)

        yield SimpleNamespace(
            traced=traced,
            state=TrainState(abstract((), "int32"), {"w": abstract((4,), "float32")}, ()),
            shapes={"w": abstract((4,), "float32")},
            batch=rows,
            loss=loss,
            init=jax.jit(
                lambda key: TrainState(jnp.int32(0), {"w": jnp.zeros(4)}, ()), out_shardings=whole
            ),
            start=jax.jit(lambda params: TrainState(jnp.int32(0), params, ()), out_shardings=whole),
            train=jax.jit(train, in_shardings=(whole, rows), out_shardings=whole),
            evaluate=jax.jit(lambda p, b, valid: weighted_sum(loss(p, b, None), valid)),
            predict=jax.jit(lambda p, b, key: b["x"] @ p["w"], out_shardings=whole),
        )


def run(compiled, workdir, **settings):
    fit(compiled, PIPELINE, Run(workdir, Config(train=Train(**settings)), MESH, None))


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_step_is_logged_evaluated_and_saved_as_asked(steps, tmp_path, capsys):
    run(steps, tmp_path)
    lines = read(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    keys = {"step", "loss", "learning_rate", "grad_norm", "tokens_per_second"}
    assert all(keys <= line.keys() for line in lines)
    evaluations = read(tmp_path / "eval.jsonl")
    assert [line["step"] for line in evaluations] == [0, 3, 6]
    assert evaluations[0]["loss"] == 1.0 > evaluations[-1]["loss"]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["4", "6"]
    out = capsys.readouterr().out
    assert "'p' -> '0.000'" in out and f"checkpoint: {tmp_path / 'checkpoints' / '6'}" in out


def test_the_step_is_compiled_once(steps, tmp_path):
    run(steps, tmp_path)
    assert len(steps.traced) == 1


def test_a_stopped_run_goes_on_where_it_was(steps, tmp_path, capsys):
    run(steps, tmp_path / "straight")
    run(steps, tmp_path / "stopped", steps=4)
    run(steps, tmp_path / "stopped")
    assert "resuming from step 4" in capsys.readouterr().out
    straight, stopped = (
        [line["loss"] for line in read(tmp_path / name / "metrics.jsonl")]
        for name in ("straight", "stopped")
    )
    assert stopped == straight
    run(steps, tmp_path / "stopped")
    assert "step 6 of 6 is done: give more --steps" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [".", "checkpoints"])
def test_a_run_starts_from_the_parameters_of_another(steps, tmp_path, capsys, folder):
    run(steps, tmp_path / "one", steps=2)
    source = str(tmp_path / "one" / folder)
    config = Config(train=Train(steps=1))
    fit(steps, PIPELINE, Run(tmp_path / "two", config, MESH, None, source))
    assert f"starting from the weights of {source}\n" in capsys.readouterr().out
    one, two = (read(tmp_path / name / "eval.jsonl") for name in ("one", "two"))
    assert two[0] == {"step": 0, "loss": one[-1]["loss"]} and two[0]["loss"] < 1.0
    assert json.loads((tmp_path / "two" / "run.json").read_text())["init"] == source


def test_what_differs_is_named_before_the_record_is_replaced(steps, tmp_path):
    run(steps, tmp_path, steps=1)
    record = (tmp_path / "run.json").read_text()
    w = {"w": steps.state.params["w"].update(shape=(8,))}
    wide = SimpleNamespace(
        **vars(steps) | {"state": TrainState(steps.state.step, w, ()), "shapes": w}
    )
    config = Config(model=Model(width=8))
    with pytest.raises(UserError, match=r"w: float32\[4\] there, float32\[8\] in the model"):
        fit(wide, PIPELINE, Run(tmp_path, config, MESH, None))
    with pytest.raises(UserError, match="width was 4 and is 8"):
        fit(steps, PIPELINE, Run(tmp_path, config, MESH, None))
    assert (tmp_path / "run.json").read_text() == record


def test_the_last_step_is_logged_evaluated_and_saved_whatever_the_intervals(steps, tmp_path):
    run(steps, tmp_path, steps=2, log_every=9, eval_every=9, save_every=9)
    assert [line["step"] for line in read(tmp_path / "metrics.jsonl")] == [2]
    assert [line["step"] for line in read(tmp_path / "eval.jsonl")] == [0, 2]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]


def test_an_interrupted_run_goes_on_where_it_was(steps, tmp_path, monkeypatch):
    class Interrupted(loop.Pace):
        calls = 0

        def __call__(self, result):
            self.calls += 1
            if self.calls == 4:
                raise KeyboardInterrupt

    run(steps, tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "Pace", Interrupted)
        run(steps, tmp_path / "stopped")
    assert [line["step"] for line in read(tmp_path / "stopped" / "metrics.jsonl")] == [1, 2, 3]
    assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == ["2"]
    run(steps, tmp_path / "stopped")
    for name, keys in [("metrics.jsonl", ("step", "loss")), ("eval.jsonl", ("step", "loss"))]:
        straight, stopped = (
            [[line[key] for key in keys] for line in read(tmp_path / folder / name)]
            for folder in ("straight", "stopped")
        )
        assert stopped == straight


@pytest.mark.parametrize("setting", ["batch_size", "micro_batches", "log_every", "keep"])
def test_settings_that_no_run_can_have_are_refused(steps, tmp_path, setting):
    with pytest.raises(UserError, match=f"--{setting.replace('_', '-')}: give a number above 0"):
        run(steps, tmp_path / "run", **{setting: 0})
    assert not (tmp_path / "run").exists()


def test_nothing_needs_to_be_held_out(steps, tmp_path, monkeypatch):
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (examples(10), []))
    run(steps, tmp_path, steps=1)
    assert read(tmp_path / "eval.jsonl") == [{"step": 0, "loss": None}, {"step": 1, "loss": None}]


@pytest.mark.parametrize("batch_size", [1, 3, 4, 16])
def test_predictions_are_of_each_example_whatever_the_batch(steps, batch_size):
    params, config = {"w": jnp.arange(4.0)}, Config(train=Train(batch_size=batch_size))
    texts = predict(steps, params, PIPELINE, config, examples(5), jax.random.key(0))
    assert texts == [f"{row['x'] @ np.arange(4.0):.3f}" for row in examples(5)]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_each_held_out_example_counts_once_whatever_the_batch(steps, size):
    params = {"w": jnp.arange(4.0)}
    x = np.stack([row["x"] for row in examples(5)])
    expected = np.mean((x @ np.arange(4.0) - 1) ** 2)
    np.testing.assert_allclose(
        mean_loss(steps, params, PIPELINE, examples(5), size), expected, 1e-6
    )


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_is_written(steps, tmp_path):
    with pytest.raises(UserError, match="--batch-size: 6 rows do not divide by 4"):
        run(steps, tmp_path / "run", batch_size=6, micro_batches=2)
    assert not (tmp_path / "run").exists()
