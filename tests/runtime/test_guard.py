"""How a run ends early: a signal, a loss that is no number, a spike; and how it goes on."""

import os
import signal
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from linear import MESH, PIPELINE, Config, Train, examples, make_steps, read

from redco_runtime.data.batches import example_indices
from redco_runtime.step import guard
from redco_runtime.step.guard import Guard, UnsoundError
from redco_runtime.base.progress import PROGRESS
from redco_runtime.base.state import ModelState, new_state
from redco_runtime.run.record import Run
from redco_runtime.loop.stop import Stopped


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


def test_the_devices_are_waited_for_in_the_guard_alone():
    guard = Guard(Train(), lambda step: np.arange(1), print)
    for step in range(1, 7):
        PROGRESS.at("the devices", step - 1)
        guard(step, {"sound": True})
        assert PROGRESS.doing == replace(PROGRESS.doing, what="the loop", step=step - 1)
    guard.settle()
    assert str(PROGRESS.doing) == "the devices of step 5"  # until its save


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
    assert ended.value.code == 3 and ended.value.together  # all processes see it
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


def test_it_waits_for_the_result_that_is_too_far_behind(monkeypatch):
    waited = []
    monkeypatch.setattr(jax, "block_until_ready", waited.append)
    keep = guard.Pace()
    for step in range(guard.AHEAD + 3):
        keep(step)
    assert waited == [0, 1, 2]


def test_a_step_is_looked_at_when_the_next_is_dispatched():
    said = []
    look = guard.Guard(Train(on_nan="skip", max_skips=9), lambda step: np.arange(1), said.append)
    for step in range(1, guard.AHEAD + 3):
        look(step, {"loss": 1.0, "grad_norm": 2.0, "sound": False})
        assert len(said) == max(0, step - guard.AHEAD)
    look.settle()
    assert len(said) == guard.AHEAD + 2
    assert said[0].startswith("left out, 1 in a row: step 1: loss 1, gradient norm 2.")


def test_the_mean_of_the_norms_begins_with_the_first_of_them():
    state = new_state(ModelState({"w": jnp.zeros(2)}, {}), optax.sgd(1.0))
    means = []
    for norm in (8.0, 4.0):
        values = {"loss": jnp.float32(1), "grad_norm": jnp.float32(norm)}
        state, _ = guard.take_step(state, {"params": state.params}, values, 10.0)
        means.append(float(state.grad_norm))
    assert means == [8.0, pytest.approx(8 * guard.KEPT + 4 * (1 - guard.KEPT))]
