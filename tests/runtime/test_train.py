"""The emitted loop, on a linear model: what it computes, how often, and what it leaves behind.

And what its README says can be added to it.
"""

import json
import os
import re
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import jinja2
import numpy as np
import optax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.errors import UserError
from redco_runtime.gradients import mean_and_gradients, weighted_sum
from redco_runtime.guard import UnsoundError, take_step
from redco_runtime.data import example_indices
from redco_runtime.inference import Inference
from redco_runtime.mesh import make_mesh
from redco_runtime.run import Run
from redco_runtime.state import ModelState, new_state
from redco_runtime.stop import Stopped

MESH = {"data": 2, "fsdp": 1, "model": 2}
PROJECT = Path(__file__).parents[2] / "templates" / "project"


@cache
def train_source():
    """The emitted train.py of a class of the user's own."""
    text = (PROJECT / "{{ package }}" / "train.py.jinja").read_text()
    request, model = SimpleNamespace(devices=4), SimpleNamespace(title="Net", own_class="Net")
    facts = {"package": "net", "request": request, "model": model}
    return jinja2.Template(text, undefined=jinja2.StrictUndefined).render(facts)


@pytest.fixture
def load_train(monkeypatch):
    """load_train(source): the emitted module, its project's other modules being those of this test."""

    def load(source=None):
        names = {"boot": None, "build": None, "PRESETS": {}, "AXES": MESH, "pipeline": PIPELINE}
        names["weights"] = None  # of a family: no test here reads a checkpoint of others
        package = {"": ["pipeline", "weights"], ".boot": ["boot"], ".config": ["PRESETS"]}
        for name, members in (package | {".sharding": ["AXES"], ".steps": ["build"]}).items():
            module = ModuleType(f"net{name}")
            vars(module).update({member: names[member] for member in members})
            monkeypatch.setitem(sys.modules, f"net{name}", module)
        module = ModuleType("net.train")
        exec(compile(source or train_source(), "train.py", "exec"), vars(module))
        return module

    return load


@pytest.fixture
def emitted(load_train):
    return load_train()


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
    on_nan: str = "stop"
    max_skips: int = 1
    step_timeout: float = 0.0
    spike: float = 0.0


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


def loss(model, batch, key):
    losses = jnp.square(batch["x"] @ model.params["w"] - 1.0)
    return losses, jnp.ones_like(losses)


def new(w):
    return new_state(ModelState({"w": w}, {}), optax.identity())


@pytest.fixture(scope="module")
def steps():
    """Steps of a linear model; steps.traced counts how often the train step was traced."""
    with make_steps() as made:
        yield made


@contextmanager
def make_steps(spike=0.0):
    traced = []
    with jax.set_mesh(make_mesh(MESH)):
        mesh = jax.sharding.get_mesh()
        rows, whole = NamedSharding(mesh, P(("data", "fsdp"))), NamedSharding(mesh, P())

        def train(state, batch):
            traced.append(1)
            value, grads, _ = mean_and_gradients(
                lambda model, *part: (loss(model, *part), model.variables),
                *(state.model, batch, jax.random.key(0), 1),
            )
            params = jax.tree.map(lambda p, g: p - 0.1 * g, state.params, grads)
            values = {"loss": value, "learning_rate": 0.1, "grad_norm": jnp.abs(grads["w"]).sum()}
            return take_step(state, {"params": params}, values, spike)

        abstract = jax.tree.map(
            lambda leaf: leaf.update(sharding=whole), jax.eval_shape(new, jnp.zeros(4))
        )
        yield SimpleNamespace(
            traced=traced,
            state=abstract,
            shapes=abstract.params,
            batch=rows,
            loss=loss,
            init=jax.jit(lambda key: new(jnp.zeros(4)), out_shardings=whole),
            start=jax.jit(lambda params: new(params["w"]), out_shardings=whole),
            train=jax.jit(train, in_shardings=(whole, rows), out_shardings=whole),
            evaluate=jax.jit(lambda p, b, valid: weighted_sum(loss(p, b, None), valid)),
            predict=jax.jit(lambda p, b, key: b["x"] @ p.params["w"], out_shardings=whole),
        )


@pytest.fixture
def run(emitted, steps):
    def run(workdir, init=None, **settings):
        emitted.train(steps, Run(workdir, Config(train=Train(**settings)), MESH, None, init))

    return run


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_the_step_and_the_run_goes_on_from_there(
    run, emitted, tmp_path, monkeypatch, number
):
    class Signalled(emitted.Guard):
        def __call__(self, step, values):
            super().__call__(step, values)
            if step == 3:
                os.kill(os.getpid(), number)
                stop.heard.wait(5)

    class Heard(emitted.Stop):
        def __init__(self):
            nonlocal stop
            super().__init__()
            stop = self

    stop, first = None, signal.signal(number, signal.default_int_handler)  # CI may ignore them
    before = signal.getsignal(number)
    run(tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(Stopped, match="step 3 is saved") as ended:
        patch.setattr(emitted, "Guard", Signalled)
        patch.setattr(emitted, "Stop", Heard)
        run(tmp_path / "stopped", save_every=100)
    assert ended.value.code == 75 and signal.getsignal(number) == before
    signal.signal(number, first)
    assert [path.name for path in (tmp_path / "stopped" / "checkpoints").iterdir()] == ["3"]
    run(tmp_path / "stopped", save_every=100)
    straight, stopped = (
        [line["loss"] for line in read(tmp_path / name / "metrics.jsonl")]
        for name in ("straight", "stopped")
    )
    assert stopped == straight


def bad_examples(n, *, at, value):
    rows = examples(n)
    for index in at:
        rows[index]["x"] = np.full(4, value, np.float32)
    return rows


def test_a_loss_that_is_no_number_ends_the_run_before_it_reaches_a_checkpoint(
    run, tmp_path, monkeypatch
):
    bad = int(example_indices(0, 4, 4, 40)[1])  # of step 5
    monkeypatch.setattr(
        PIPELINE, "examples", lambda config: (bad_examples(40, at=[bad], value=np.nan), [])
    )
    with pytest.raises(UnsoundError) as ended:
        run(tmp_path, save_every=5, steps=9)
    assert ended.value.code == 3
    indices = ", ".join(map(str, example_indices(0, 4, 4, 40)))
    assert f"step 5: loss nan, gradient norm nan. Its examples: {indices}." in str(ended.value)
    assert not list((tmp_path / "checkpoints").glob("[0-9]*"))


def test_an_update_that_is_left_out_changes_nothing_but_the_step(
    run, tmp_path, monkeypatch, capsys
):
    bad = int(example_indices(0, 4, 4, 40)[1])
    monkeypatch.setattr(
        PIPELINE, "examples", lambda config: (bad_examples(40, at=[bad], value=np.inf), [])
    )
    run(tmp_path, steps=6, on_nan="skip", eval_every=99)
    lines = read(tmp_path / "metrics.jsonl")
    assert [line["loss"] is None for line in lines] == [False] * 4 + [True, False]
    assert "sound" not in lines[0]
    assert "left out, 1 in a row: step 5: loss " in capsys.readouterr().out
    every = bad_examples(40, at=range(40), value=np.inf)
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (every, []))
    with pytest.raises(UnsoundError, match="step 2: .*--max-skips 1 such updates in a row"):
        run(tmp_path / "all", steps=6, on_nan="skip", eval_every=99)


def test_a_gradient_far_above_its_mean_is_a_spike(emitted, tmp_path, monkeypatch):
    far = int(example_indices(0, 4, 4, 40)[1])
    monkeypatch.setattr(
        PIPELINE, "examples", lambda config: (bad_examples(40, at=[far], value=1e3), [])
    )
    config = Config(train=Train(steps=9, spike=10.0, save_every=2))
    with make_steps(spike=10.0) as steps, pytest.raises(UnsoundError, match="step 5: .*--spike 10"):
        emitted.train(steps, Run(tmp_path, config, MESH, None))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "4"]


@pytest.mark.parametrize("setting", ["batch_size", "micro_batches", "log_every", "keep"])
def test_settings_that_no_run_can_have_are_refused(run, tmp_path, setting):
    with pytest.raises(UserError, match=f"--{setting.replace('_', '-')}: give a number above 0"):
        run(tmp_path / "run", **{setting: 0})
    assert not (tmp_path / "run").exists()


def test_nothing_needs_to_be_held_out(run, tmp_path, monkeypatch):
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (examples(10), []))
    run(tmp_path, steps=1)
    assert read(tmp_path / "eval.jsonl") == [{"step": 0, "loss": None}, {"step": 1, "loss": None}]


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
    """The Python of the README: a metric, a logger and a callback."""
    blocks = re.findall(
        r"```python\n(.*?)```", (PROJECT / "README.md.jinja").read_text(), re.DOTALL
    )
    assert len(blocks) == 3
    return blocks


def test_what_the_readme_adds_to_the_loop_works(load_train, steps, tmp_path, monkeypatch):
    numbers = {}
    wandb = SimpleNamespace(log=lambda values, step: numbers.setdefault(step, {}).update(values))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    source = train_source().replace("import jax\n", "import jax\nimport optax\nimport wandb\n", 1)
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
    assert numbers[2]["loss"] == lines[1]["loss"] and 0 < numbers[2]["held_out_loss"] < 1
    assert numbers[2]["param_norm"] == lines[1]["param_norm"]
