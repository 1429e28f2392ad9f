"""Processes that watch each other: each says which one went, and how, and none stays."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime"

PROGRAM = """
import os, sys, time
from pathlib import Path
sys.modules["jax"] = type(sys)("jax")  # takes most of a second, and nothing of it is asked for here
from redco_runtime.cluster import lifeline
from redco_runtime.base import messages
from redco_runtime.base import progress
from redco_runtime.cluster import rendezvous
from redco_runtime.base.progress import PROGRESS
lifeline.BEAT, lifeline.LATE, lifeline.SETTLE = 0.2, 1.0, 0.5
port, index, fault = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
lifeline.WINDOW = 0.8 if fault == "slow" else 60
me = rendezvous.Member(index, 3, f"host{index}", {})
lifeline.connect(me, rendezvous.meet(me, f"localhost:{port}", 20))
progress.LONG = 2.0
# Of what is forgiven, none may be near: on a busy machine a pause is longer than it was asked to be.
deadlines = PROGRESS.deadlines(*((30.0, 30.0) if fault == "late" else (2.0, 3.0)))
deadlines.__enter__()
if fault == "start":
    PROGRESS.at("its data" if index == 1 else "its weights")
else:
    PROGRESS.at("the examples" if index == 1 else "the devices", 7)
if "early" not in fault:
    messages.open_log(Path(sys.argv[4]) / f"{index}.log")
    os.write(2, b"of C++\\n")
print("there", flush=True)
sys.stdin.readline()
if index == 1:
    if fault.startswith("fail"):
        lifeline.end("KeyError: 'x'\\nand more", 2, tell=lambda: print("KeyError", file=sys.stderr))
    if fault.startswith("same"):
        time.sleep(0.1)
    if fault == "leave":
        raise SystemExit(0)
if fault.startswith("same"):  # in all
    lifeline.end("error: a bad row", 2)
if fault in ("hang", "start"):
    time.sleep(30)
for step in range({"leave": 20, "slow": 60, "late": 80}.get(fault, 600)):
    PROGRESS.at("the examples" if fault == "slow" and index == 1 else "the devices", 8 + step)
    time.sleep(0.05)
"""


@pytest.fixture
def run(tmp_path):
    """run(fault): three processes; [(exit code, stderr)] after it befalls process 1, or 0."""
    running = []

    def run(fault, act=lambda processes: None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        env = os.environ | {"PYTHONPATH": str(RUNTIME)}
        for index in range(3):
            command = [sys.executable, "-c", PROGRAM, str(port), str(index), fault, str(tmp_path)]
            running.append(subprocess.Popen(command, env=env, text=True, **pipes))
        for process in running:
            assert process.stdout.readline() == "there\n", process.stderr.read()
        time.sleep(0.5)  # until all have come to the lifeline
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        act(running)
        for process in running:
            if fault != "stop" or process is not running[1]:
                process.wait(30)
        running[1].kill()
        return [(process.wait(), process.stderr.read()) for process in running]

    yield run
    for process in running:
        process.kill()
        process.communicate()


GONE = "is gone without a word: killed, by hand or for want of memory, or its host is down"


def test_a_process_that_is_killed(run, tmp_path):
    ends = run("kill", lambda processes: processes[1].kill())
    line = f"boot: process 1 on host1 {GONE}"
    assert ends[1][0] == -signal.SIGKILL
    assert ends[0] == (69, f"{line}; its log: {tmp_path}/1.log\n")
    assert ends[2] == (69, "")  # said once, by process 0
    assert (tmp_path / "2.log").read_text().startswith(f"of C++\n{line}")


def test_process_0_is_killed(run, tmp_path):
    ends = run("kill", lambda processes: processes[0].kill())
    assert ends[1] == (69, f"boot: process 0 on localhost {GONE}; its log: {tmp_path}/0.log\n")
    assert ends[2] == (69, "")


def test_a_process_that_is_stopped(run):
    ends = run("stop", lambda processes: processes[1].send_signal(signal.SIGSTOP))
    line = "boot: process 1 on host1 is silent for 3 s: stopped, or its network is cut"
    assert ends[0][0] == ends[2][0] == 69 and ends[2][1] == ""
    assert ends[0][1].splitlines()[-1].startswith(line)


@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_is_stopped_for_a_while_is_late_and_forgiven(run, index):
    def act(processes):
        processes[index].send_signal(signal.SIGSTOP)
        time.sleep(1.8)
        processes[index].send_signal(signal.SIGCONT)

    ends = run("late", act)
    said = [text.strip().rpartition("\n")[2] for _, text in ends]
    teller = 1 - index
    assert [code for code, _ in ends] == [0, 0, 0] and [bool(x) for x in said] == [
        i == teller for i in range(3)
    ]
    assert re.search(r"process \d on \w+ is back after \d+\.?\d* s", said[teller])


def test_a_process_that_fails(run, tmp_path):
    ends = run("fail")
    line = "boot: process 1 on host1 has failed: KeyError: 'x'"
    assert ends == [(2, f"{line}; its log: {tmp_path}/1.log\n"), (2, ""), (2, "")]
    assert "KeyError\n" in (tmp_path / "1.log").read_text()


def test_a_process_that_fails_before_it_has_a_log_says_what_is_more_than_the_line(run):
    line = "boot: process 1 on host1 has failed: KeyError: 'x'\n"
    assert run("fail early") == [(2, line), (2, "KeyError\n"), (2, "")]


@pytest.mark.parametrize("when", ["", " early"])
def test_what_all_processes_say_is_said_once(run, tmp_path, when):
    assert run(f"same{when}") == [(2, "error: a bad row\n"), (2, ""), (2, "")]
    assert when or "error: a bad row" in (tmp_path / "2.log").read_text()


def test_a_process_that_hangs(run, tmp_path):
    ends = run("hang")
    assert {code for code, _ in ends} == {1} and ends[1][1] == ends[2][1] == ""
    assert "Thread 0x" in (tmp_path / "1.log").read_text()
    line = ends[0][1].strip()
    assert line.startswith("boot: process 1 on host1 is at the examples of step 7 for ")
    assert line.endswith(f" s; others are at the devices of step 7; its log: {tmp_path}/1.log")


def test_a_process_that_hangs_before_the_first_step(run):
    ends = run("start")
    line = ends[0][1].strip()
    assert line.startswith("boot: process 1 on host1 is at its data for ")
    assert " s; others are at its weights; its log: " in line
    assert [code for code, _ in ends] == [1] * 3


def test_a_process_that_leaves_is_not_missed(run):
    assert run("leave") == [(0, "")] * 3


def test_a_process_that_holds_the_others_up_is_named(run):
    ends = run("slow")
    assert ends[1] == ends[2] == (0, "")
    code, line = ends[0]
    assert code == 0 and line.startswith("note: process 1 on host1 is the slowest: its host took ")
    assert line.strip().endswith(
        " s for its examples and its part of the loop, the median process 0.0 s"
    )
