"""The emitted loop, on a linear model: what it computes, how often, and what it leaves behind.

And what docs/how-to/extend.md says can be added to it.
"""

import json
import re
import sys
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from generated import ROOT
from linear import MESH, PIPELINE, Config, Model, Train, examples, read, train_source

from redco_runtime.base.messages import UserError
from redco_runtime.step.gradients import weighted_sums
from redco_runtime.loop.evaluation import Inference
from redco_runtime.run.record import Run
from redco_runtime.base.state import ModelState


def test_every_step_is_logged_evaluated_and_saved_as_asked(run, tmp_path, capsys):
    run(tmp_path)
    lines = read(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert list(lines[0])[:4] == ["step", "loss", "grad_norm", "learning_rate"]
    for line in lines:
        assert line["examples_per_second"] == pytest.approx(4 / line["step_seconds"])
    evaluations = read(tmp_path / "eval.jsonl")
    assert [line["step"] for line in evaluations] == [0, 3, 6]
    assert evaluations[0]["loss"] == 1.0 > evaluations[-1]["loss"]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["4", "6"]
    out = capsys.readouterr().out
    assert "'p' -> '0.000'" in out and f"checkpoint: {tmp_path / 'checkpoints' / '6'}" in out


def test_the_step_is_compiled_once(run, steps, tmp_path):
    steps.traced.clear()
    steps.train.clear_cache()
    run(tmp_path, steps=2)
    assert len(steps.traced) == 1


def test_a_stopped_run_goes_on_where_it_was(run, tmp_path, capsys):
    run(tmp_path / "straight")
    run(tmp_path / "stopped", steps=4)
    run(tmp_path / "stopped")
    assert "resuming from step 4" in capsys.readouterr().out
    straight, stopped = (
        [line["loss"] for line in read(tmp_path / name / "metrics.jsonl")]
        for name in ("straight", "stopped")
    )
    assert stopped == straight
    run(tmp_path / "stopped")
    assert "step 6 of 6 is done: give more --steps" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [".", "checkpoints"])
def test_a_run_starts_from_the_parameters_of_another(run, tmp_path, capsys, folder):
    run(tmp_path / "one", steps=2)
    source = str(tmp_path / "one" / folder)
    run(tmp_path / "two", init=source, steps=1)
    assert f"starting from the weights of {source}\n" in capsys.readouterr().out
    one, two = (read(tmp_path / name / "eval.jsonl") for name in ("one", "two"))
    assert two[0] == {"step": 0, "loss": one[-1]["loss"]} and two[0]["loss"] < 1.0
    assert json.loads((tmp_path / "two" / "run.json").read_text())["init"] == source


def test_what_differs_is_named_before_the_record_is_replaced(run, emitted, steps, tmp_path):
    run(tmp_path, steps=1)
    record = (tmp_path / "run.json").read_text()
    w = {"w": steps.state.params["w"].update(shape=(8,))}
    wide = SimpleNamespace(**vars(steps) | {"state": replace(steps.state, params=w), "shapes": w})
    config = Config(model=Model(width=8))
    with pytest.raises(UserError, match=r"w: float32\[4\] there, float32\[8\] in the model"):
        emitted.train(wide, Run(tmp_path, config, MESH, None))
    with pytest.raises(UserError, match="width was 4 and is 8"):
        emitted.train(steps, Run(tmp_path, config, MESH, None))
    assert (tmp_path / "run.json").read_text() == record


def test_examples_that_refuse_to_go_on_leave_the_record_as_it_is(run, tmp_path, monkeypatch):
    """What is evaluated and exported later reads the settings of the steps that were taken."""

    class Private(list):
        def resume(self, start, position):
            if start:
                raise UserError("--workdir: the examples are others")

        def history(self, step):
            return {}

    monkeypatch.setattr(PIPELINE, "examples", lambda config: (Private(examples(10)), examples(5)))
    run(tmp_path, steps=1, seed=1)
    record = (tmp_path / "run.json").read_text()
    with pytest.raises(UserError, match="the examples are others"):
        run(tmp_path, steps=2, seed=3)
    assert (tmp_path / "run.json").read_text() == record and '"seed": 1' in record


def test_the_last_step_is_logged_evaluated_and_saved_whatever_the_intervals(run, tmp_path):
    run(tmp_path, steps=2, log_every=9, eval_every=9, save_every=9)
    assert [line["step"] for line in read(tmp_path / "metrics.jsonl")] == [2]
    assert [line["step"] for line in read(tmp_path / "eval.jsonl")] == [0, 2]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]


def test_an_interrupted_run_goes_on_where_it_was(run, emitted, tmp_path, monkeypatch):
    class Interrupted(emitted.Guard):
        def __call__(self, step, values):
            if step == 4:
                raise KeyboardInterrupt
            super().__call__(step, values)

    run(tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(emitted, "Guard", Interrupted)
        run(tmp_path / "stopped")
    assert [line["step"] for line in read(tmp_path / "stopped" / "metrics.jsonl")] == [1, 2, 3]
    assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == ["2"]
    run(tmp_path / "stopped")
    for name, keys in [("metrics.jsonl", ("step", "loss")), ("eval.jsonl", ("step", "loss"))]:
        straight, stopped = (
            [[line[key] for key in keys] for line in read(tmp_path / folder / name)]
            for folder in ("straight", "stopped")
        )
        assert stopped == straight


@pytest.mark.parametrize("setting", ["batch_size", "micro_batches", "log_every", "keep"])
def test_settings_that_no_run_can_have_are_refused(run, tmp_path, setting):
    with pytest.raises(UserError, match=f"--{setting.replace('_', '-')}: 0: give a number above 0"):
        run(tmp_path / "run", **{setting: 0})
    assert not (tmp_path / "run").exists()


def test_nothing_needs_to_be_held_out(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (examples(10), []))
    run(tmp_path, steps=1)
    assert read(tmp_path / "eval.jsonl") == [{"step": 0, "loss": None}, {"step": 1, "loss": None}]
    assert "no example is held out: evaluations have no loss" in capsys.readouterr().out


@pytest.mark.parametrize("batch_size", [1, 3, 4, 16])
def test_predictions_are_of_each_example_whatever_the_batch(steps, batch_size):
    model, config = ModelState({"w": jnp.arange(4.0)}, {}), Config(
        train=Train(batch_size=batch_size)
    )
    texts = Inference(steps, PIPELINE, config).predict(model, examples(5))
    assert texts == [f"{row['x'] @ np.arange(4.0):.3f}" for row in examples(5)]


@pytest.mark.parametrize("size", [2, 4, 8])
def test_each_held_out_example_counts_once_whatever_the_batch(steps, size):
    model, config = ModelState({"w": jnp.arange(4.0)}, {}), Config(train=Train(batch_size=size))
    x = np.stack([row["x"] for row in examples(5)])
    expected = np.mean((x @ np.arange(4.0) - 1) ** 2)
    found = Inference(steps, PIPELINE, config).mean_loss(model, examples(5))
    np.testing.assert_allclose(found, expected, 1e-6)


def test_terms_of_each_row_are_evaluated(run, steps, tmp_path, monkeypatch):
    def evaluate(model, batch, valid):
        gap = batch["x"] @ model.params["w"] - 1
        return weighted_sums((gap**2, jnp.ones(4), {"gap": (gap, 0.0)}), valid)

    monkeypatch.setattr(steps, "evaluate", jax.jit(evaluate))
    model = ModelState({"w": jnp.arange(4.0)}, {})
    means = Inference(steps, PIPELINE, Config()).means(model, examples(5))
    gaps = np.stack([row["x"] for row in examples(5)]) @ np.arange(4.0) - 1
    assert means == pytest.approx({"loss": np.mean(gaps**2), "gap": gaps.mean()})
    run(tmp_path, steps=1)
    assert read(tmp_path / "eval.jsonl")[0] == {"step": 0, "loss": 1.0, "gap": -1.0}


def test_ids_without_a_row_are_refused_of_what_is_held_out_and_asked_too(steps, monkeypatch):
    def pick(model, batch, *_):
        return model.params["rows"][batch["id"]][:, 0]

    def evaluate(model, batch, valid):
        return weighted_sums((pick(model, batch), jnp.ones(4)), valid)

    rows = jnp.ones((5, 4))
    own = {
        "shapes": {"rows": jax.typeof(rows)},
        "predict": jax.jit(pick),
        "evaluate": jax.jit(evaluate),
    }
    monkeypatch.setattr(PIPELINE, "collate", lambda rows: {"id": np.array(rows)}, raising=False)
    monkeypatch.setattr(PIPELINE, "decode", lambda config, outputs, rows: outputs.tolist())
    inference = Inference(SimpleNamespace(**vars(steps) | own), PIPELINE, Config())
    model = ModelState({"rows": rows}, {})
    assert inference.mean_loss(model, [*range(5)]) == 1.0
    assert inference.predict(model, [*range(5)]) == [1.0] * 5
    for run in (inference.means, inference.predict):
        with pytest.raises(UserError, match="id the id 5, of example 5, .* has 5 rows"):
            run(model, [*range(6)])
    monkeypatch.setattr(PIPELINE, "decode", lambda *_: ["x"])
    with pytest.raises(UserError, match="decode.* gives 1 texts for 4 examples: give one for each"):
        inference.predict(model, [*range(4)])


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_is_written(run, tmp_path):
    with pytest.raises(UserError, match="--batch-size: 6 rows do not divide by 4"):
        run(tmp_path / "run", batch_size=6, micro_batches=2)
    assert not (tmp_path / "run").exists()


def test_steps_0_saves_what_a_run_starts_from(run, tmp_path, capsys):
    run(tmp_path / "one", steps=2)
    run(tmp_path / "two", init=str(tmp_path / "one"), steps=0)
    checkpoint = tmp_path / "two" / "checkpoints" / "0"
    assert f"checkpoint: {checkpoint}\nstep 0 of 0 is done" in capsys.readouterr().out
    assert checkpoint.is_dir() and not (tmp_path / "two" / "metrics.jsonl").exists()


def test_what_is_wrong_of_a_sample_is_said_of_its_own_flag(run, tmp_path, monkeypatch):
    def prompts(config, texts):
        raise UserError(f"--prompt: {texts} is too long")

    monkeypatch.setattr(PIPELINE, "prompts", prompts)
    with pytest.raises(UserError, match=r"^--sample-prompts: \['p'\] is too long$"):
        run(tmp_path)


def test_scores_without_their_settings_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setattr(PIPELINE, "evaluate", lambda *_: {}, raising=False)
    with pytest.raises(UserError, match="add to class Train of config.py the fields eval_examples"):
        run(tmp_path / "run")


LOG, EVALUATION, SHOW = (
    "                if last or done % settings.log_every == 0:\n"
    "                    metrics.log(done, values, batches.count)\n",
    "        evaluate = Evaluation(steps, pipeline, run, held_out, metrics, stop)\n",
    "                if last or done % settings.eval_every == 0:\n"
    "                    evaluate(done, state)\n",
)


def snippets():
    """The Python of the page of what a user adds: a metric, a logger and a callback."""
    page = (ROOT / "docs/how-to/extend.md").read_text().partition("## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    return blocks


def test_what_the_page_adds_to_the_loop_works(load_train, steps, tmp_path, monkeypatch):
    numbers = {}
    tracker = SimpleNamespace(log=lambda values, step: numbers.setdefault(step, {}).update(values))
    monkeypatch.setitem(sys.modules, "tracker", tracker)
    source = train_source().replace("import jax\n", "import jax\nimport optax\nimport tracker\n", 1)
    for block, place in zip(snippets(), (LOG, EVALUATION, SHOW), strict=True):
        assert source.count(place) == 1
        source = source.replace(place, block)
    train = load_train(source).train
    config = Config(train=Train(steps=6, eval_every=2, save_every=9))
    train(steps, Run(tmp_path, config, MESH, None))
    # Below 1 at once, so that the callback ends it at step 2, and saves that step.
    lines = read(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["param_norm"] > 0 for line in lines)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["2"]
    assert sorted(numbers) == [0, 1, 2]
    assert numbers[2]["loss"] == lines[1]["loss"] and 0 < numbers[2]["eval_loss"] < 1
    assert numbers[2]["param_norm"] == lines[1]["param_norm"]
    assert numbers[0]["sample/p"] == "0.000"


@dataclass(frozen=True)
class Patient(Train):
    epochs: float = 0.0
    patience: int = 0
    eval_examples: int = 4
    best: tuple[str, ...] = ()


@pytest.fixture
def run_patient(emitted, steps, monkeypatch):
    """run(workdir, **settings): a run of the linear model with all fields of an emitted `Train`."""
    monkeypatch.setattr(emitted, "build", lambda config: steps)

    def run(workdir, **settings):
        config = Config(train=Patient(**settings))
        emitted.train(steps, Run(workdir, config, MESH, None))

    return run


def test_a_run_says_first_what_it_is_about_to_do(run, tmp_path, capsys):
    run(tmp_path)
    out = capsys.readouterr().out
    assert out.startswith(
        "starting from random numbers\n"
        "Model: 4 parameters, all trained\n"
        "mesh data=2 fsdp=1 model=2: 4 devices (cpu), 1 process\n"
        "10 rows, and 5 held out; 4 a step\n"
        "6 steps, 2.5 steps an epoch: 2.4 epochs\n"
        f"writing to {tmp_path}\n"
    )


@pytest.mark.parametrize(("epochs", "count"), [(1, 3), (2, 5), (0.1, 1)])
def test_a_run_is_so_many_epochs_long(run_patient, tmp_path, epochs, count):
    run_patient(tmp_path, epochs=epochs)
    assert [line["step"] for line in read(tmp_path / "metrics.jsonl")][-1] == count
    assert json.loads((tmp_path / "run.json").read_text())["config"]["train"]["steps"] == count


@pytest.mark.parametrize("some", [iter(examples(10)), range(2**31)])
def test_epochs_of_what_nobody_counts_are_refused(run_patient, tmp_path, monkeypatch, some):
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (some, examples(5)))
    with pytest.raises(UserError, match="--epochs: how many examples there are is not known"):
        run_patient(tmp_path, epochs=1)


def test_a_run_ends_where_its_loss_gets_no_better(run_patient, tmp_path, capsys, monkeypatch):
    with pytest.raises(UserError, match="--patience: .* give --best loss"):
        run_patient(tmp_path, patience=2)
    losses = iter([9.0, 3.0, 2.0, 2.5, 2.0, 1.0, 1.0])
    monkeypatch.setattr(Inference, "means", lambda *_: {"loss": next(losses)})
    run_patient(tmp_path, steps=9, eval_every=1, save_every=100, patience=2, best=("loss",))
    assert [line["loss"] for line in read(tmp_path / "eval.jsonl")] == [9.0, 3.0, 2.0, 2.5, 2.0]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["4"]
    assert [path.name for path in (tmp_path / "checkpoints-best/loss").iterdir()] == ["2"]
    capsys.readouterr()
    again = {"steps": 9, "eval_every": 1, "save_every": 100, "best": ("loss",)}
    run_patient(tmp_path, patience=2, **again)
    assert "step 4 of 9 is done: give more --patience to train on" in capsys.readouterr().out
    run_patient(tmp_path, patience=3, **again | {"steps": 5})
    assert read(tmp_path / "metrics.jsonl")[-1]["step"] == 5
