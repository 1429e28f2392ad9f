"""The best checkpoint of each score: which is kept, what a resumed run knows, what is said of it."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.best import best_score, keep_best
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.errors import UserError
from redco_runtime.loop import Trainer, report
from redco_runtime.metrics import Metrics
from redco_runtime.run import Run
from redco_runtime.state import TrainState


def state(step, w=0.0):
    return TrainState(jnp.int32(step), {"w": jnp.full(4, w)}, ())


def kept(folder, name):
    """(step, w) of the checkpoint of a score."""
    with Checkpoints(folder / name) as checkpoints:
        step, params = checkpoints.restore_params(jax.eval_shape(lambda: state(0)).params)
    return step, float(params["w"][0])


def test_each_score_keeps_the_state_that_it_was_best_at(tmp_path):
    scores = [(10, 0.2, 0.9), (20, 0.5, 0.8), (30, 0.5, 0.95), (40, 0.4, 0.1)]
    found = [
        keep_best(tmp_path, ("f1", "em"), {"f1": f1, "em": em, "x": 1.0}, n, state(n, n / 10))
        for n, f1, em in scores
    ]
    assert found == [["f1", "em"], ["f1"], ["em"], []]
    assert kept(tmp_path, "f1") == (20, 2.0) and kept(tmp_path, "em") == (30, 3.0)
    assert [path.name for path in (tmp_path / "f1").iterdir()] == ["20"]
    assert (best_score(tmp_path, "f1"), best_score(tmp_path, "em")) == (0.5, 0.95)
    assert json.loads((tmp_path / "em.json").read_text()) == {"step": 30, "em": 0.95}
    assert not (tmp_path / "x").exists()


def test_a_run_that_goes_back_replaces_what_came_later(tmp_path):
    keep_best(tmp_path, ("f1",), {"f1": 0.5}, 40, state(40, 4.0))
    assert keep_best(tmp_path, ("f1",), {"f1": 0.4}, 20, state(20, 2.0)) == []
    assert kept(tmp_path, "f1") == (40, 4.0)
    assert keep_best(tmp_path, ("f1",), {"f1": 0.6}, 30, state(30, 3.0)) == ["f1"]
    assert kept(tmp_path, "f1") == (30, 3.0)


def test_no_number_is_never_the_best(tmp_path):
    assert keep_best(tmp_path, ("f1",), {"f1": float("nan")}, 1, state(1)) == []
    assert not (tmp_path / "f1").exists()


def test_a_score_that_there_is_not_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(UserError, match="--best: no score is called bleu: choose some of f1, em"):
        keep_best(tmp_path, ("f1", "bleu"), {"f1": 0.5, "em": 0.1}, 1, state(1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"f1": null}', "[1]"])
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "f1.json").write_text(text)
    with pytest.raises(UserError, match="f1.json: no score in it"):
        best_score(tmp_path, "f1")


@pytest.fixture
def trainer(mesh, tmp_path):
    """A trainer whose model adds its one number to x; its score is minus the mean distance to y."""

    def evaluate(config, outputs, examples):
        assert len(outputs) == len(examples)
        return {"n": float(len(examples)), "near": -float(np.abs(outputs - 3.0).mean())}

    pipeline = SimpleNamespace(
        prompts=lambda config, texts: [{"x": 0.0} for _ in texts],
        collate=lambda rows: {"x": np.array([row["x"] for row in rows], np.float32)},
        decode=lambda config, outputs, examples: [f"{value:.1f}" for value in outputs],
        evaluate=evaluate,
    )
    steps = SimpleNamespace(
        shapes={"w": jax.ShapeDtypeStruct((1,), "float32")},
        batch=NamedSharding(mesh, P("data")),
        evaluate=lambda params, batch, valid: (valid.sum() * 1.0, valid.sum()),
        predict=lambda params, batch, key: batch["x"] + params["w"][0],
    )
    train = SimpleNamespace(batch_size=4, seed=0, eval_examples=7, best=("near",))
    config = SimpleNamespace(train=train, data=SimpleNamespace(sample_prompts=("p",)))
    run = Run(tmp_path, config, {}, None)
    return Trainer(steps, pipeline, run, None, [], [{"x": 0.0}] * 9)


def report_all(trainer, values):
    """What eval.jsonl has after a report of each (step, w)."""
    counts = {"total": 9, "start": 0, "tokens_per_step": 1, "flops_per_step": 1.0}
    metrics = Metrics(trainer.run.workdir, **counts)
    for step, w in values:
        report(trainer, state(step, w), metrics, step)
    metrics.close()
    lines = (trainer.run.workdir / "eval.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_scores_are_of_the_first_examples_and_logged(trainer, capsys):
    lines = report_all(trainer, [(0, 3.0), (2, 1.0), (4, 2.5), (6, 2.0)])
    assert [line["near"] for line in lines] == [0.0, -2.0, -0.5, -1.0]
    assert {line["n"] for line in lines} == {7.0}
    folder = trainer.run.workdir / "checkpoints-best"
    assert kept(folder, "near") == (4, 2.5)  # not 0: nothing was trained then
    out = capsys.readouterr().out
    assert f"best near so far: {folder / 'near' / '4'}" in out and "near -0.5000" in out


def test_a_pipeline_without_scores_keeps_nothing(trainer):
    del trainer.pipeline.evaluate, trainer.run.config.train.best
    lines = report_all(trainer, [(0, 3.0), (2, 1.0)])
    assert lines == [{"step": 0, "loss": 1.0}, {"step": 2, "loss": 1.0}]
    assert not (trainer.run.workdir / "checkpoints-best").exists()
