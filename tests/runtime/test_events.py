"""events.jsonl: every second of a run is of one event, whatever ends it, and whatever befalls the file."""

import re
import threading
import time

import jax
import pytest
from linear import MESH, Config, read

from redco_runtime.monitor import events
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.loop.command import command
from redco_runtime.base.messages import UserError
from redco_runtime.monitor.events import EVENTS
from redco_runtime.monitor.events import add_up_events
from redco_runtime.base.progress import PROGRESS, Progress
from redco_runtime.run.record import Run
from redco_runtime.loop.start import start_or_resume
from redco_runtime.loop.stop import Stopped


def kinds(lines):
    return [line["event"] for line in lines]


@pytest.fixture(autouse=True)
def of_no_run():
    """Nothing of what other tests in this process have done is a run's."""
    PROGRESS.at("its start")
    EVENTS._path, EVENTS._kind, EVENTS._steps, EVENTS._seconds = None, "boot", 0, 0.0
    EVENTS._early.clear()


@pytest.fixture
def interrupted(emitted, run):
    """interrupted(folder): a run that saved step 2, and failed in step 4."""

    def interrupted(folder):
        class Broken(emitted.Guard):
            def __call__(self, step, values):
                if step == 4:
                    raise KeyError("x")
                super().__call__(step, values)

        guard, emitted.Guard = emitted.Guard, Broken
        with pytest.raises(KeyError):
            run(folder)
        emitted.Guard = guard

    return interrupted


def test_the_events_follow_one_another_without_a_gap(run, tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LEAST", 0.0)  # a fast machine's save is an event here too
    begin = time.time()
    run(tmp_path)
    lines, end = read(tmp_path / "events.jsonl"), time.time()
    assert kinds(lines)[:2] == ["start", "boot"] and kinds(lines)[-1] in ("save", "evaluate", "end")
    assert {"steps", "save", "evaluate"} <= {*kinds(lines)}
    for before, after in zip(lines, lines[1:], strict=False):
        assert after["time"] == pytest.approx(before["time"] + before["seconds"], abs=0.2)
    sums = add_up_events(lines)
    assert sums.total == pytest.approx(end - begin, abs=0.5) and 0 < sums.goodput < 1
    assert sum(line.get("steps", 0) for line in lines) == sums.times["steps"] == 6


def test_the_end_prints_the_goodput_once(run, tmp_path, capsys):
    """By the process of the run itself: its machine need not have redco-new."""
    run(tmp_path)
    EVENTS.close()
    EVENTS.close()
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("goodput ")]
    assert re.fullmatch(r"goodput \d+\.\d% of \d+\.\d s: steps \d+\.\d%(, [a-z ]+ \d+\.\d%)+", line)


def test_a_restart_says_what_was_lost(interrupted, run, tmp_path):
    interrupted(tmp_path)
    time.sleep(0.2)
    run(tmp_path)
    lines = read(tmp_path / "events.jsonl")
    (restart,) = [line for line in lines if line["event"] == "restart"]
    assert restart["step"] == 2 and restart["lost_steps"] == 2
    assert 0.2 < restart["seconds"] < 5
    sums = add_up_events(lines)
    assert (sums.times["steps"], sums.times["steps made again"]) == (6, 2)


@pytest.mark.parametrize(
    "damage",
    [b'{"time": 1, "ev', b"\0" * 40 + b"\n", b"[]\n", b'{"step": Infinity}\n', b'{"step": 9}\n'],
)
def test_damaged_lines_stop_no_run(run, tmp_path, damage, capsys):
    run(tmp_path, steps=2)
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes() + damage)
    run(tmp_path, steps=3)
    assert "restart" in [line.get("event") for line in read(path)]
    warned = "a damaged line is dropped" in capsys.readouterr().err
    assert warned == damage.endswith(b"\n")


def test_a_full_disk_is_a_line_and_stops_no_run(run, tmp_path, capsys):
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    run(tmp_path, steps=2)
    err = capsys.readouterr().err
    assert err.count("No space left on device") == 1
    assert err.count("The run goes on without events.jsonl.") == 1


def test_only_process_0_writes(steps, tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    run = Run(tmp_path, Config(), MESH, None)
    with Checkpoints(run.checkpoints) as checkpoints:
        start_or_resume(checkpoints, steps, run, None)
    EVENTS.end("fault", "x")
    assert list(tmp_path.iterdir()) == []
    assert 0 < PROGRESS.size < 1e4, "bytes of this process's share of a checkpoint"


def test_a_checkpoint_of_many_bytes_may_take_longer_than_an_hour():
    here = Progress()
    with here.deadlines(0.0):
        here.at("a save")
        assert here.deadline() == 3600
        here.size = 1e12
        assert here.deadline() == 20_000
        here.at("the devices", 7)
        assert here.deadline() == 300


def test_long_steps_are_several_events(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "SPAN", 0.05)
    EVENTS.open(tmp_path, 7)
    for step in range(7, 17):
        PROGRESS.at("the devices", step)
        time.sleep(0.02)
    PROGRESS.at("its end")
    lines = [line for line in read(tmp_path / "events.jsonl") if line["event"] == "steps"]
    assert len(lines) > 2 and lines[-1]["step"] == 17
    assert sum(line["steps"] for line in lines) == 10


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Stopped("step 4 is saved"), "signal", "stopped: step 4 is saved"),
        (KeyboardInterrupt(), "signal", "stopped: the same command goes on"),
        (UserError("no\nsuch"), "fault", "error: no"),
        (ZeroDivisionError("x"), "fault", "ZeroDivisionError: x"),
    ],
)
def test_the_last_event_is_why_it_ends(tmp_path, error, kind, text):
    @command
    def main():
        EVENTS.open(tmp_path, 4)
        PROGRESS.at("a save")
        time.sleep(0.05)
        raise error

    with pytest.raises((SystemExit, ZeroDivisionError)):
        main()
    PROGRESS.at("its end")
    last = [line for line in read(tmp_path / "events.jsonl") if line["event"] != "end"][-1]
    assert last["event"] == kind and last["text"].startswith(text) and "\n" not in last["text"]
    assert last["doing"] == "a save" and 0.05 <= last["seconds"] < 5


def test_a_disk_that_hangs_keeps_no_process_alive(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LAST_WORDS", 0.1)
    EVENTS.open(tmp_path, 0)
    hung, there = threading.Event(), threading.Event()

    def hang():
        with EVENTS._lock:
            there.set()
            hung.wait(10)

    thread = threading.Thread(target=hang)
    thread.start()
    there.wait()
    begin = time.monotonic()
    EVENTS.end("fault", "x")
    assert time.monotonic() - begin < 5
    hung.set()
    thread.join()


def span(step, steps, seconds=10.0):
    return {"event": "steps", "step": step, "steps": steps, "seconds": seconds}


def test_steps_after_the_one_that_a_restart_went_on_from_are_made_again():
    restart = {"event": "restart", "step": 15, "seconds": 3.0}
    lines = [span(10, 10), span(20, 10), restart, span(30, 15, 15.0)]
    sums = add_up_events(lines)
    assert dict(sums.seconds) == {"steps": 30.0, "steps made again": 5.0, "between runs": 3.0}
    assert (sums.times["steps"], sums.times["steps made again"]) == (30, 5)
    assert sums.goodput == pytest.approx(30 / 38)
    again = add_up_events([*lines, restart | {"step": 0}])
    assert again.seconds["steps"] == 0 and again.seconds["steps made again"] == 35.0
    assert again.times["steps made again"] == 35


def test_time_of_steps_that_were_only_waited_for_goes_where_they_go():
    waited = span(20, 0, 4.0)  # for those that were begun before
    lines = [span(20, 10), waited, {"event": "restart", "step": 10, "seconds": 0.0}]
    assert add_up_events(lines).seconds["steps made again"] == 14.0
    lines[-1]["step"] = 20
    assert add_up_events(lines).seconds["steps"] == 14.0
