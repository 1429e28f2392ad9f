"""Ctrl-C, from the first instruction of a program to its last; and where its time went, to the last."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from linear import read

from redco_runtime.monitor.events import add_up_events
from redco_runtime.base.interrupts import APART, Ears

# Says when the last function at exit runs, which is the first that is registered; after it Python takes itself down.
LAST = "import atexit, time\natexit.register(lambda: print(time.time()))\n"
RUNTIME = Path(__file__).parents[2] / "runtime"
PROGRAM = """
import signal, sys, time
from pathlib import Path
act = sys.argv[1]

def wait(*_):
    print("here", flush=True)
    time.sleep(30)

class Callback:
    def __del__(self):  # what it raises is printed, and forgotten
        wait()

if act == "import":
    wait()
if act == "callback":
    one = Callback()
    del one
if act == "jax":
    import jax, numpy as np
    jax.pure_callback(wait, np.float32(0), np.float32(0)).block_until_ready()
from redco_runtime.loop.command import command
from redco_runtime.base.messages import UserError
from redco_runtime.monitor.events import EVENTS
from redco_runtime.base.progress import PROGRESS
from redco_runtime.loop.stop import Stop

@command
def main():
    for what in ("its data", "the tokens of its data", "what has no kind", "a compilation"):
        PROGRESS.at(what)
        time.sleep(0.3)
    EVENTS.open(Path(sys.argv[2]), 0)
    PROGRESS.at("a save")
    if act == "compiling":
        wait()
    with Stop() as stop:
        PROGRESS.at("the devices", 0)
        print("here", flush=True)
        while act != "well" and not stop():
            time.sleep(0.1)
        if act == "steps":
            time.sleep(30)
    if act == "near":
        raise UserError("so it is")

main()
"""


@pytest.fixture
def start(tmp_path):
    """start(act): a program of a project, whose first import is the runtime."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").write_text(f"{LAST}import redco_runtime\n")
    (tmp_path / "project" / "train.py").write_text(PROGRAM)
    env = os.environ | {"PYTHONPATH": f"{RUNTIME}{os.pathsep}{tmp_path}", "JAX_PLATFORMS": "cpu"}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off
    pipe = subprocess.PIPE

    def start(act):
        command = [sys.executable, "-m", "project.train", act, str(tmp_path)]
        return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)

    return start


@pytest.mark.parametrize("act", ["import", "callback", "jax", "compiling"])
def test_one_ctrl_c_before_the_loop_is_a_line(start, act):
    process = start(act)
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=20)[1]
    assert err == "stopped: the same command goes on from the last checkpoint, if there is one\n"
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("act", "gap", "code", "last"),
    [
        ("well", 0, 0, ""),
        ("near", 0.4, 2, "error: so it is\n"),
        ("steps", 1.5, 130, "stopped at once: what was saved before is whole\n"),
    ],
)
def test_the_causes_add_up_to_the_wall_clock(start, tmp_path, act, gap, code, last):
    began = time.time()
    process = start(act)
    assert process.stdout.readline() == "here\n"
    if gap:
        process.send_signal(signal.SIGINT)
        time.sleep(gap)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    seconds = float(out.split()[-1] if out else time.time()) - began
    assert process.returncode == code and err.endswith(last)
    events = read(tmp_path / "events.jsonl")
    sums = add_up_events(events)
    # A program of seconds: what Python needs to begin is more than 1 % of it.
    assert sums.total == pytest.approx(seconds, rel=0.01, abs=0.3)
    assert sums.seconds["data"] >= 0.6 and sums.seconds["other"] >= 0.3
    assert events[0]["event"] == "start" and events[0]["time"] == pytest.approx(began, abs=0.3)


def test_two_ctrl_c_within_a_second_are_one():
    numbers, again = list[int](), threading.Event()

    def hear(number):
        numbers.append(number)
        again.set()

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with Ears([signal.SIGINT], hear):
        interrupt()
        assert again.wait(5)
        interrupt()
        time.sleep(0.2)
        assert numbers == [signal.SIGINT]
        time.sleep(APART)
        again.clear()
        interrupt()
        assert again.wait(5) and len(numbers) == 2
    assert signal.getsignal(signal.SIGINT) is before
