"""A work folder has one run at a time, whoever else comes, on this host or another."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from redco_runtime.run import lock
from redco_runtime.base.messages import UserError

RUNTIME = Path(__file__).parents[2] / "runtime"
HOLD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what starts the tests may ignore
from pathlib import Path
from redco_runtime.run import lock
from redco_runtime.base.messages import UserError
sys.stdin.readline()
try:
    lock.hold(Path(sys.argv[1]), print)
    print("has it", flush=True)
    time.sleep(60)
except UserError as error:
    print(error, flush=True)
"""


@pytest.fixture
def start():
    """start(folder): a process that holds a folder, once a line comes on its stdin."""
    processes = []

    def start(folder):
        pipe, env = subprocess.PIPE, os.environ | {"PYTHONPATH": str(RUNTIME)}
        command = [sys.executable, "-c", HOLD, str(folder)]
        processes.append(subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def holder(start):
    """holder(folder): a process that holds a folder."""

    def holder(folder):
        process = start(folder)
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == "has it\n"
        return process

    return holder


@pytest.fixture
def hold(monkeypatch):
    """hold(folder): by this process; what it says when it is lost."""
    monkeypatch.setattr(lock, "BEAT", 0.2)
    monkeypatch.setattr(lock, "LOOK", 0.02)
    monkeypatch.setattr(lock, "_locks", {})
    said = []

    def hold(folder):
        lock.hold(folder, said.append)
        return said

    yield hold
    lock.release()


def write(folder, **changes):
    """Write the lock of another process."""
    mine = vars(lock._this_process())
    (folder / lock.FILE).write_text(json.dumps(mine | changes) + "\n")


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_second_run_is_refused_before_it_writes(holder, run, tmp_path):
    process = holder(tmp_path)
    before = files(tmp_path)
    with pytest.raises(UserError, match=f"is in use by process {process.pid} on .*: wait for") as e:
        run(tmp_path)
    assert "\n" not in str(e.value) and files(tmp_path) == before
    process.send_signal(signal.SIGSTOP)  # which lives
    with pytest.raises(UserError, match="is in use by"):
        run(tmp_path)
    process.kill()
    time.sleep(0.2)  # it is not waited for: a process that nobody has asked for is gone too
    run(tmp_path, steps=2)
    assert json.loads((tmp_path / lock.FILE).read_text())["pid"] == os.getpid()
    run(tmp_path, steps=4)  # of one process


def test_one_of_many_has_what_a_dead_process_had(start, tmp_path):
    write(tmp_path, began="1")  # this process's id, of one before it
    processes = [start(tmp_path) for _ in range(6)]
    time.sleep(0.5)
    for process in processes:
        print(file=process.stdin, flush=True)
    said = [process.stdout.readline() for process in processes]
    assert said.count("has it\n") == 1 and sum("is in use by" in line for line in said) == 5
    assert [path.name for path in tmp_path.iterdir()] == [lock.FILE]


def test_what_another_host_had_is_waited_for(hold, tmp_path, capsys):
    write(tmp_path, machine="another", host="elsewhere")
    begin = time.monotonic()
    hold(tmp_path)
    assert 0.6 <= time.monotonic() - begin < 5
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path} was in use by process {os.getpid()} on elsewhere, since ")
    assert said.endswith(": waiting 1 s for a sign that it lives\n") and said.count("\n") == 1
    assert list(lock._locks) == [tmp_path / lock.FILE]


def test_what_another_host_has_is_refused(hold, tmp_path):
    write(tmp_path, machine="another", host="elsewhere")
    touch = threading.Timer(0.3, os.utime, [tmp_path / lock.FILE])
    touch.start()
    with pytest.raises(UserError, match="on elsewhere, since .*, which lives: wait for its end"):
        hold(tmp_path)
    touch.join()


def test_what_another_host_lets_go_of_is_not_waited_for(hold, tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 20)
    write(tmp_path, machine="another")
    gone = threading.Timer(0.2, (tmp_path / lock.FILE).unlink)
    gone.start()
    begin = time.monotonic()
    hold(tmp_path)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("damage", ["", "[1]", '{"pid": 1}', "[" * 100_000, "\0" * 9])
def test_a_damaged_lock_is_of_a_process_of_another_host(hold, tmp_path, damage, capsys):
    (tmp_path / lock.FILE).write_text(damage)
    hold(tmp_path)
    assert f"{tmp_path} was in use by a process: waiting" in capsys.readouterr().err


def test_it_is_touched_and_lost_to_who_takes_it(hold, tmp_path):
    said = hold(tmp_path)
    before = lock._look(tmp_path / lock.FILE)
    until = time.monotonic() + 5
    while lock._look(tmp_path / lock.FILE) == before and time.monotonic() < until:
        time.sleep(0.02)
    assert lock._look(tmp_path / lock.FILE)[0] == before[0]
    assert lock._look(tmp_path / lock.FILE)[1] > before[1]
    (tmp_path / lock.FILE).unlink()  # by a user: it is there again
    until = time.monotonic() + 5
    while not (tmp_path / lock.FILE).exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not said
    write(tmp_path, machine="another", host="elsewhere")
    while not said and time.monotonic() < until:
        time.sleep(0.02)
    assert "on elsewhere, since" in said[0] and said[0].endswith("What it saved is whole.")
    lock.release()
    assert (tmp_path / lock.FILE).exists()  # it is the other's


def test_a_file_that_is_being_written_is_nobody_elses_yet(hold, tmp_path):
    said = hold(tmp_path)
    (tmp_path / lock.FILE).write_bytes(b"")
    time.sleep(3 * lock.BEAT)
    assert not said
    write(tmp_path, machine="another", host="elsewhere")
    until = time.monotonic() + 5
    while not said and time.monotonic() < until:
        time.sleep(0.02)
    assert "on elsewhere, since" in said[0]


def test_it_ends_with_its_process(holder, tmp_path):
    process = holder(tmp_path)
    process.send_signal(signal.SIGINT)
    process.wait(10)
    assert not (tmp_path / lock.FILE).exists()
