"""--log: what goes where, what is refused, and that no logger stops a run."""

import inspect
import shutil
import sys
import threading
import time
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import jax
import pytest
from linear import read
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from redco_runtime.monitor import metrics
from redco_runtime.base.messages import UserError
from redco_runtime.monitor.metrics import LOGGERS
from redco_runtime.monitor.trackers import run_id

# The arguments of wandb 0.31.0 and trackio 0.43.0, as far as they are used here.
SIGNATURES = {
    "wandb": lambda project=None, dir=None, id=None, name=None, config=None, resume=None: None,
    "trackio": lambda project, name=None, config=None, resume="never": None,
}


def events(folder):
    """Yield (step, name, number or text) of all event files; (step, "purge", None) of what is void."""
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            body = data[12 : 12 + size]
            assert masked_crc32c(body) == int.from_bytes(data[12 + size : 16 + size], "little")
            data = data[16 + size :]
            event = Event.FromString(body)
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                yield event.step, "purge", None
            for value in event.summary.value:
                texts = value.tensor.string_val
                yield event.step, value.tag, texts[0].decode() if texts else value.simple_value


@pytest.fixture
def tracker(monkeypatch):
    """tracker(name): what a module of that name is called with."""

    def tracker(name):
        calls, module = [], ModuleType(name)

        def init(**options):
            inspect.signature(SIGNATURES[name]).bind(**options)
            calls.append(("init", options))
            return SimpleNamespace(
                log=lambda data, step=None: calls.append(("log", step, data)),
                finish=lambda: calls.append(("finish",)),
            )

        module.init, module.__spec__ = init, ModuleSpec(name, None, origin="here")
        monkeypatch.setitem(sys.modules, name, module)
        return calls

    return tracker


def test_event_files_of_tensorboard(run, tmp_path):
    run(tmp_path, log=("tensorboard",), steps=3)
    written = {(step, name): value for step, name, value in events(tmp_path / "tensorboard")}
    for line in read(tmp_path / "metrics.jsonl"):
        assert written[line["step"], "loss"] == pytest.approx(line["loss"])
    assert written[3, "eval_loss"] == pytest.approx(read(tmp_path / "eval.jsonl")[-1]["loss"])
    assert written[0, "sample/p/text_summary"] == "0.000"


def test_tensorboard_drops_what_a_restart_makes_again(run, tmp_path):
    run(tmp_path, log=("tensorboard",), steps=3, save_every=2)
    shutil.rmtree(tmp_path / "checkpoints" / "3")  # as if a kill had come before it
    time.sleep(1.1)  # event files are named by the second
    run(tmp_path, log=("tensorboard",), steps=3, save_every=2)
    first, second = sorted((tmp_path / "tensorboard").iterdir())
    (tmp_path / "again").mkdir()
    second.rename(tmp_path / "again" / second.name)
    again = list(events(tmp_path / "again"))
    assert again[0] == (3, "purge", None)
    assert {step for step, *_ in again} == {3}


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_a_tracker_is_told(run, tmp_path, tracker, name):
    calls = tracker(name)
    run(tmp_path, log=(name,), steps=2)
    (_, options), *logs, end = calls
    assert options["project"] == "linear" and options["resume"] == "allow"
    assert options["config"]["config"]["train"]["steps"] == 2 and run_id(tmp_path) in str(options)
    assert end == ("finish",)
    assert [step for _, step, _ in logs] == [0, 1, 2, 2]
    assert logs[0][2]["sample/p"] == "0.000" and logs[0][2]["eval_loss"] == 1.0
    assert logs[1][2]["loss"] == read(tmp_path / "metrics.jsonl")[0]["loss"]
    run(tmp_path, log=(name,), steps=3)
    again = [options for kind, options in (c for c in calls if c[0] == "init")][-1]
    assert {k: v for k, v in again.items() if k != "config"} == {
        k: v for k, v in options.items() if k != "config"
    }


def test_only_process_0_logs(tmp_path, monkeypatch):
    from redco_runtime.monitor.metrics import open_loggers

    monkeypatch.setattr(jax, "process_index", lambda: 1)
    train = SimpleNamespace(log=("tensorboard",))
    assert open_loggers(SimpleNamespace(config=SimpleNamespace(train=train)), 0) == []


def test_what_is_not_there_is_refused_at_the_start(run, tmp_path, monkeypatch):
    with pytest.raises(
        UserError, match="--log: no logger is called tb: choose some of tensorboard, w"
    ):
        run(tmp_path / "run", log=("tb",))
    monkeypatch.setitem(sys.modules, "wandb", None)
    (tmp_path / "trackio").mkdir()  # such as a folder of its runs
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("wandb", "trackio"):
        with pytest.raises(
            UserError, match=f"--log {name}: it is not installed: pip install {name}"
        ):
            run(tmp_path / "run", log=(name,))
    assert not (tmp_path / "run").exists()


def broken(moment):
    """A logger of the user's own that fails at that moment."""

    def fail(at):
        if at == moment:
            raise ConnectionError("no network")

    class Broken:
        def __init__(self, run, start):
            fail("open")

        def __call__(self, step, values):
            fail("log")

        def close(self):
            fail("close")

    return Broken


def test_a_logger_that_hangs_holds_no_run_up(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(metrics, "PATIENCE", 0.1)
    network = threading.Event()
    monkeypatch.setitem(LOGGERS, "mine", lambda run, start: lambda step, values: network.wait(20))
    run(tmp_path, log=("mine",), steps=2)
    network.set()
    assert "note: loggers have not ended within 0 s; the run does" in capsys.readouterr().out
    assert len(read(tmp_path / "metrics.jsonl")) == 2


@pytest.mark.parametrize("moment", ["open", "log", "close"])
def test_a_logger_that_raises_stops_no_run(run, tmp_path, monkeypatch, capsys, moment):
    monkeypatch.setitem(LOGGERS, "mine", broken(moment))
    run(tmp_path, log=("mine", "tensorboard"), steps=2)
    out = capsys.readouterr().out
    assert out.count("ConnectionError('no network'); the run goes on without it") == 1
    assert len(read(tmp_path / "metrics.jsonl")) == 2
    assert [step for step, name, _ in events(tmp_path / "tensorboard") if name == "loss"] == [1, 2]
