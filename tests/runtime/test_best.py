"""The best checkpoint of each score: which is kept, what a resumed run knows, what is said of it."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.checkpoints.best import keep_best, read_best
from redco_runtime.loop.evaluation import is_out_of_patience
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.loop.evaluation import Evaluation
from redco_runtime.monitor.metrics import Metrics
from redco_runtime.run.record import Run
from redco_runtime.base.state import ModelState, new_state


def state(step, w=0.0):
    return new_state(ModelState({"w": jnp.full(4, w)}, {}), optax.identity(), step)


def kept(folder, name):
    """(step, w) of the checkpoint of a score."""
    with Checkpoints(folder / name) as checkpoints:
        step, model = checkpoints.restore_model(jax.eval_shape(lambda: state(0)).model)
    return step, float(model.params["w"][0])


def test_each_score_keeps_the_state_that_it_was_best_at(tmp_path):
    scores = [(10, 0.2, 0.9), (20, 0.5, 0.8), (30, 0.5, 0.95), (40, 0.4, 0.1)]
    found = [
        keep_best(tmp_path, ("f1", "em"), {"f1": f1, "em": em, "x": 1.0}, n, state(n, n / 10))
        for n, f1, em in scores
    ]
    assert found == [["f1", "em"], ["f1"], ["em"], []]
    assert kept(tmp_path, "f1") == (20, 2.0) and kept(tmp_path, "em") == (30, 3.0)
    assert [path.name for path in (tmp_path / "f1").iterdir()] == ["20"]
    assert [read_best(tmp_path, name)[1] for name in ("f1", "em")] == [0.5, 0.95]
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
    assert read_best(tmp_path, "f1") == (0, float("-inf"))


def test_a_score_that_there_is_not_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(UserError, match="--best: no score is called bleu: choose some of f1, em"):
        keep_best(tmp_path, ("f1", "bleu"), {"f1": 0.5, "em": 0.1}, 1, state(1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"f1": null}', "[1]"])
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "f1.json").write_text(text)
    with pytest.raises(UserError, match="f1.json: no score in it"):
        read_best(tmp_path, "f1")


@pytest.fixture
def parts(mesh, tmp_path):
    """(steps, pipeline, run, examples) of a model that adds its one number to x; its score is minus the mean distance to y."""

    def evaluate(config, outputs, examples):
        assert len(outputs) == len(examples)
        numbers = [float(example["number"]) for example in examples]
        return {
            "n": float(len(examples)),
            "numbers": sum(numbers),
            "near": -float(np.abs(outputs - 3.0).mean()),
        }

    pipeline = SimpleNamespace(
        prompts=lambda config, texts: [{"x": 0.0} for _ in texts],
        collate=lambda rows: {"x": np.array([row["x"] for row in rows], np.float32)},
        decode=lambda config, outputs, examples: [f"{value:.1f}" for value in outputs],
        evaluate=evaluate,
    )
    steps = SimpleNamespace(
        shapes={"w": jax.ShapeDtypeStruct((1,), "float32")},
        batch=NamedSharding(mesh, P("data")),
        evaluate=jax.jit(lambda model, batch, valid: (valid.sum() * 1.0, valid.sum())),
        predict=jax.jit(lambda model, batch, key: batch["x"] + model.params["w"][0]),
    )
    train = SimpleNamespace(batch_size=4, seed=0, eval_examples=7, best=("near",))
    config = SimpleNamespace(train=train, data=SimpleNamespace(sample_prompts=("p",)))
    run = Run(tmp_path, config, {}, None)
    return steps, pipeline, run, [{"x": 0.0, "number": number} for number in range(9)]


def report_all(parts, values):
    """What eval.jsonl has after an evaluation of each (step, w), which gives the same numbers."""
    folder = parts[2].workdir
    metrics = Metrics(folder, total=9, start=0, unit="rows", flops_per_step=1.0)
    evaluate = Evaluation(*parts, metrics)
    numbers = [{"step": step} | evaluate(step, state(step, w)) for step, w in values]
    metrics.close()
    lines = (folder / "eval.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == numbers
    return numbers


def test_scores_are_of_examples_from_all_over_and_logged(parts, capsys):
    lines = report_all(parts, [(0, 3.0), (2, 1.0), (4, 2.5), (6, 2.0)])
    assert [line["near"] for line in lines] == [0.0, -2.0, -0.5, -1.0]
    assert {(line["n"], line["numbers"]) for line in lines} == {(7.0, 0 + 1 + 2 + 3 + 5 + 6 + 7)}
    folder = parts[2].workdir / "checkpoints-best"
    assert kept(folder, "near") == (4, 2.5)  # not 0: nothing was trained then
    out = capsys.readouterr().out
    assert f"best near so far: {folder / 'near' / '4'}" in out and "near -0.5000" in out


def test_a_term_of_the_loss_is_a_score_like_others(parts):
    """Whatever it is called; dpo's have TRL's names."""
    steps, _, run, _ = parts

    @jax.jit
    def evaluate(model, batch, valid):
        margins = valid.sum() * model.params["w"][0]
        return {"loss": valid.sum() * 1.0, "rewards/margins": margins}, valid.sum()

    steps.evaluate = evaluate
    run.config.train.best = ("rewards/margins",)
    lines = report_all(parts, [(0, 9.0), (2, 1.0), (4, 2.5), (6, 2.0)])
    assert [line["rewards/margins"] for line in lines] == [9.0, 1.0, 2.5, 2.0]
    assert kept(run.checkpoints_by("rewards/margins").parent, "margins") == (4, 2.5)
    with pytest.raises(UserError, match="by 'near': choose rewards/margins"):
        run.checkpoints_by("near")


def test_a_pipeline_that_draws_has_a_picture_of_each_evaluation(parts):
    def draw_predictions(config, outputs, examples, path):
        path.write_text(f"{len(examples)} {outputs[0]}")

    parts[1].draw_predictions = draw_predictions
    report_all(parts, [(0, 3.0), (2, 1.0)])
    pictures = {path.name: path.read_text() for path in (parts[2].workdir / "pictures").iterdir()}
    assert pictures == {"0.png": "7 3.0", "2.png": "7 1.0"}


def test_a_pipeline_without_scores_keeps_nothing(parts):
    _, pipeline, run, _ = parts
    del pipeline.evaluate, run.config.train.best
    lines = report_all(parts, [(0, 3.0), (2, 1.0)])
    assert lines == [{"step": 0, "loss": 1.0}, {"step": 2, "loss": 1.0}]
    assert not (parts[2].workdir / "checkpoints-best").exists()


def test_an_evaluation_that_is_to_stop_gives_no_number(parts):
    folder = parts[2].workdir
    metrics = Metrics(folder, total=9, start=0, unit="rows", flops_per_step=1.0)
    numbers = Evaluation(*parts, metrics, stop=lambda: True)(2, state(2, 1.0))
    metrics.close()
    # Which a callback compares: no such loss is below any.
    assert numbers.keys() == {"loss"} and not numbers["loss"] < 1.0
    assert not (folder / "eval.jsonl").exists()


def test_less_is_better_of_a_loss(tmp_path):
    values = [(10, 3.0), (20, 2.0), (30, 2.5), (40, float("nan")), (50, 1.0)]
    found = [keep_best(tmp_path, ("loss",), {"loss": x}, n, state(n)) for n, x in values]
    assert found == [["loss"], ["loss"], [], [], ["loss"]] and kept(tmp_path, "loss")[0] == 50


def test_the_loss_is_a_score_without_any(parts):
    _, pipeline, run, _ = parts
    del pipeline.evaluate
    run.config.train.best = ("loss",)
    report_all(parts, [(0, 3.0), (2, 1.0)])
    assert kept(run.best, "loss") == (2, 1.0)


def test_a_score_that_there_is_not_is_named_before_the_first_step(parts):
    parts[2].config.train.best = ("nearest",)
    with pytest.raises(UserError, match="no score is called nearest: choose some of loss, n, num"):
        report_all(parts, [(0, 3.0)])


def test_what_is_predicted_for_scores_can_be_other_than_the_examples(parts):
    pipeline, asked = parts[1], []
    pipeline.questions = lambda config, some: asked.append(len(some)) or [{"x": 1.0} for _ in some]
    assert report_all(parts, [(0, 1.0)])[0]["near"] == -1.0 and asked == [7]


@pytest.mark.parametrize(("step", "over"), [(40, False), (49, False), (50, True), (55, True)])
def test_patience_ends_with_so_many_evaluations_without_a_better_score(parts, step, over, capsys):
    run = parts[2]
    run.config.train.patience, run.config.train.eval_every = 3, 10
    keep_best(run.best, ("near",), {"near": -0.5}, 20, state(20))
    assert is_out_of_patience(run, step) is over
    assert (
        "near got no better than -0.5 of step 20 for --patience 3" in capsys.readouterr().out
    ) is over
    run.config.train.patience = 0
    assert not is_out_of_patience(run, step)
    del run.config.train.patience  # as of an older config.py
    assert not is_out_of_patience(run, step)


def test_patience_needs_what_it_measures_by(parts):
    steps, pipeline, run, _ = parts
    run.config.train.patience = 3
    with pytest.raises(UserError, match="--patience: no example is held out to measure by"):
        Evaluation(steps, pipeline, run, [], None)
