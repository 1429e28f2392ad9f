import io
import json
import math
import re
import sys
import threading
import time
from concurrent.futures import wait

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from redco_runtime.monitor import metrics
from redco_runtime.base.messages import UserError
from redco_runtime.monitor.metrics import Metrics


def open_metrics(workdir, total=10, start=0, **changes):
    known = {"unit": "tokens", "flops_per_step": 1e9} | changes
    return Metrics(workdir, total=total, start=start, **known)


def values(step):
    return {
        "loss": jnp.float32(1 / step),
        "learning_rate": jnp.float32(0.1),
        "grad_norm": jnp.float32(2),
    }


def log_steps(workdir, *steps, **changes):
    log = open_metrics(workdir, **changes)
    for step in steps:
        log.log(step, values(step), 100 * step)
    log.close()
    return read(workdir)


def read(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


class Slow:
    """A value that is not there yet, as that of a step which still runs."""

    def __init__(self):
        self.ready = threading.Event()

    def __array__(self, dtype=None, copy=None):
        assert self.ready.wait(timeout=10)
        return np.float32(3)


class Broken:
    """A value of a step that failed on the device."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the device failed")


def test_one_object_a_line_with_the_rates(tmp_path):
    log = open_metrics(tmp_path)
    log.log(1, values(1), 100 * 1)
    time.sleep(0.1)
    log.log(3, values(3), 100 * 3)
    log.close()
    first, second = read(tmp_path)
    assert list(first) == [
        *["step", "loss", "learning_rate", "grad_norm"],
        *["step_seconds", "tokens_per_second", "mfu", "memory_gib"],
    ]
    assert first["step"] == 1 and first["loss"] == 1 and first["grad_norm"] == 2
    assert first["step_seconds"] > 0 and first["mfu"] is None
    assert second["step"] == 3 and 0.04 < second["step_seconds"] < 5
    assert second["tokens_per_second"] == pytest.approx(100 / second["step_seconds"])
    assert second["mfu"] is None  # a CPU has no entry in the table


def test_mfu_is_that_of_all_devices(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(metrics.PEAK_FLOPS, jax.devices()[0].device_kind, 1e9)
    last = log_steps(tmp_path, 1, 2, total=2)[-1]
    assert last["mfu"] == pytest.approx(1e9 / last["step_seconds"] / (4 * 1e9))
    assert f"  MFU {last['mfu']:.1%}  " in capsys.readouterr().out


def test_log_does_not_wait_for_values(tmp_path):
    slow, log = Slow(), open_metrics(tmp_path)
    log.log(1, {"loss": slow}, 100 * 1)
    log.log(2, values(2), 100 * 2)
    assert read(tmp_path) == []
    slow.ready.set()
    log.close()
    assert [line["loss"] for line in read(tmp_path)] == [3, 0.5]


def test_nan_and_infinity_are_null(tmp_path):
    log = open_metrics(tmp_path)
    log.log(1, {"loss": jnp.float32(math.nan), "grad_norm": jnp.float32(math.inf)}, 100 * 1)
    log.close()
    (line,) = read(tmp_path)
    assert line["loss"] is None and line["grad_norm"] is None


def test_two_records_of_one_step_have_no_rate(tmp_path):
    lines = log_steps(tmp_path, 1, 2, 2, 3)
    assert [line["step_seconds"] is None for line in lines] == [False, False, True, False]


def test_the_time_of_an_evaluation_counts_for_no_step(tmp_path, capsys):
    log = open_metrics(tmp_path)
    log.log(1, values(1), 100 * 1)
    time.sleep(0.3)
    log.evaluated(1, 0.5)
    log.log(2, values(2), 100 * 2)
    log.close()
    assert read(tmp_path)[1]["step_seconds"] < 0.2
    assert (tmp_path / "eval.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n'
    assert "step 1/10  held-out loss 0.5000" in capsys.readouterr().out


def test_a_held_out_loss_that_is_not_finite_is_null(tmp_path):
    log = open_metrics(tmp_path)
    log.evaluated(1, math.nan)
    log.close()
    assert (tmp_path / "eval.jsonl").read_text() == '{"step": 1, "loss": null}\n'


def test_without_held_out_examples_there_is_no_loss(tmp_path, capsys):
    log = open_metrics(tmp_path)
    log.evaluated(1, None, samples=[("a", "b")])
    log.close()
    assert "step 1/10  held-out loss none\n  'a' -> 'b'\n" in capsys.readouterr().out
    assert (tmp_path / "eval.jsonl").read_text() == '{"step": 1, "loss": null}\n'


def test_an_evaluation_that_is_made_again_replaces_the_one_before(tmp_path):
    for start, steps in [(0, (0, 2, 4)), (2, (4, 6)), (0, (0, 2))]:
        log = open_metrics(tmp_path, start=start)
        for step in steps:
            log.evaluated(step, step / 2)
        log.close()
        lines = (tmp_path / "eval.jsonl").read_text().splitlines()
        expected = {0: [0, 2, 4], 2: [0, 2, 4, 6]}[start] if steps != (0, 2) else [0, 2]
        assert [json.loads(line)["step"] for line in lines] == expected


def test_a_resumed_run_appends_after_its_step(tmp_path):
    log_steps(tmp_path, 1, 2, 3, 4)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 5, "lo')  # killed while it wrote
    lines = log_steps(tmp_path, 3, 4, start=2)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_only_the_writer_writes_and_shows(tmp_path, capfd):
    log = open_metrics(tmp_path, writer=False)
    log.log(1, values(1), 100 * 1)
    log.say("hello")
    log.close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_file_that_cannot_be_opened_is_one_clear_error(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UserError, match="cannot write .*metrics.jsonl: Is a directory. Mend that"):
        open_metrics(tmp_path)


def test_a_full_disk_is_raised_once_and_training_may_stop(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    log = open_metrics(tmp_path)
    log.log(1, values(1), 100 * 1)
    wait(log._tasks)
    with pytest.raises(UserError, match="metrics.jsonl: No space left on device"):
        log.log(2, values(2), 100 * 2)
    log.close()


def test_a_full_disk_is_raised_at_the_end(tmp_path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    log = open_metrics(tmp_path)
    log.log(1, values(1), 100 * 1)
    with pytest.raises(UserError, match="No space left on device"):
        log.close()


def test_what_fails_on_the_device_is_raised(tmp_path):
    log = open_metrics(tmp_path)
    log.log(1, {"loss": Broken()}, 100 * 1)
    with pytest.raises(RuntimeError, match="the device failed"):
        log.close()


def test_lines_where_there_is_no_terminal(tmp_path, capsys):
    log = open_metrics(tmp_path, total=4)
    for step in range(1, 5):
        log.log(step, values(step), 100 * step)
    log.say("saved")
    log.close()
    out, err = capsys.readouterr()
    shown = [line for line in out.splitlines() if line != "saved"]
    assert [line.split("  ")[0] for line in shown] == ["step 1/4", "step 4/4"]
    assert re.fullmatch(
        r"step 4/4  loss 0.25  [\d,]+ tokens/s  00:00 left  \S+ s/step  learning_rate 0.1  grad_norm 2",
        shown[1],
    )
    assert "saved" in out and err == ""


def test_the_time_that_is_left(tmp_path, capsys):
    log = open_metrics(tmp_path, total=3600)
    log._last_time = (0, time.perf_counter() - 2)
    log.log(1, values(1), 100)
    log.close()
    expected = (
        r"step 1/3600  loss 1  \d\d tokens/s  (1:59|2:\d\d):\d\d left  2[.\d]* s/step  learning"
    )
    assert re.match(expected, capsys.readouterr().out)


def test_a_bar_where_there_is_a_terminal(tmp_path, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    log = open_metrics(tmp_path, total=4, start=2)
    log.log(3, values(3), 100 * 3)
    log.log(4, values(4), 100 * 4)
    log.say("saved")
    log.close()
    bar = sys.stderr.getvalue()
    assert "4/4" in bar and "loss 0.25" in bar
    assert capsys.readouterr().out == "saved\n"


def test_the_thread_ends_at_close(tmp_path):
    log_steps(tmp_path, 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("metrics")]


def test_one_slow_step_is_a_fifth_of_the_time_that_is_left(tmp_path):
    log = open_metrics(tmp_path, total=101)
    lines = [
        log._text(1, {"loss": 1.0}, {"step_seconds": x, "b": 1, "c": 1, "d": 1})
        for x in (1.0, 11.0)
    ]
    log.close()
    assert ["01:40 left" in lines[0], "05:00 left" in lines[1]] == [True, True]
