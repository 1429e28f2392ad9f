"""Updates in several processes: one at a time, and killed at any moment."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from transactions import NEW, OLD, changes, in_memory, lay, tree

from redco_new.errors import RedcoError
from redco_new.transaction import apply, locked, recover, unfinished

HOLD = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from redco_new.transaction import locked

with locked(Path({root!r}), 0):
    print("locked", flush=True)
    sys.stdin.readline()
"""

COUNT = """
import hashlib, sys
from pathlib import Path
sys.path[:0] = {path!r}
from redco_new.transaction import Change, apply, locked, recover

root = Path({root!r})
for _ in range(15):
    with locked(root, 60):
        recover(root)
        content = (root / "same.py").read_bytes()
        now = hashlib.sha256(content).hexdigest()
        apply(root, [Change("same.py", b"%d" % (int(content) + 1), now)])
"""

FOREVER = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from redco_new.transaction import apply, locked, recover
from transactions import changes

root = Path({root!r})
print("started", flush=True)
while True:
    with locked(root, 0):
        assert recover(root) == []
        apply(root, changes())
        apply(root, changes(back=True))
"""


@pytest.fixture
def folder():
    with in_memory() as folder:
        yield folder


@pytest.fixture
def root(tmp_path):
    return lay(tmp_path / "root", OLD)


def start(script, root):
    command = [sys.executable, "-c", script.format(path=sys.path, root=str(root))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_second_leaves_with_a_message(root):
    with start(HOLD, root) as first:
        assert first.stdout.readline() == "locked\n"
        for seconds in (0, 0.2):
            said, began = [], time.monotonic()
            with pytest.raises(RedcoError, match="another update of it is running; let that end"):
                with locked(root, seconds, said.append):
                    pass
            assert time.monotonic() - began >= seconds
            assert said == ([f"waiting for another update of {root}"] if seconds else [])
        first.communicate("\n")


def test_second_waits(root):
    with start(HOLD, root) as first:
        assert first.stdout.readline() == "locked\n"

        def end_the_first(line):
            first.stdin.write("\n")
            first.stdin.flush()

        with locked(root, 60, end_the_first):
            assert first.wait(60) == 0


def test_dies_with_its_process(root):
    with start(HOLD, root) as first:
        assert first.stdout.readline() == "locked\n"
        first.kill()
        first.wait()
        with locked(root, 0):
            pass


def test_is_given_back_after_an_error(root):
    with pytest.raises(KeyError):
        with locked(root, 0):
            raise KeyError
    with locked(root, 0):
        pass


def test_updates_at_once_lose_nothing(root):
    (root / "same.py").write_text("0")
    processes = [start(COUNT, root) for _ in range(3)]
    for process in processes:
        assert process.communicate(timeout=100) == ("", "")
    assert (root / "same.py").read_text() == "45"


def test_lock_that_is_a_link(root):
    (root / ".redco/lock").symlink_to(root.parent / "outside")
    with pytest.raises(RedcoError, match=".redco/lock: cannot be opened: Too many levels"):
        with locked(root, 0):
            pass
    assert not (root.parent / "outside").exists()


def test_disk_without_locks(root, monkeypatch):
    def none(*args):
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(RedcoError, match="cannot be locked: Operation not supported"):
        with locked(root, 0):
            pass


def test_folder_that_is_no_project(tmp_path):
    with pytest.raises(RedcoError, match="is not a redco project"):
        with locked(tmp_path, 0):
            pass
    assert not os.listdir(tmp_path)


def test_kill_9_at_random_moments(folder):
    trees = (tree(lay(folder / files[".redco/manifest.json"], files)) for files in (OLD, NEW))
    states = [contents(found) for found in trees]
    root, dice, found = lay(folder / "root", OLD), random.Random(0), []
    command = [sys.executable, "-c", FOREVER.format(path=sys.path, root=str(root))]
    while sum(found) < 2 and len(found) < 100:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"started\n"
            time.sleep(dice.uniform(0, 0.1))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        with locked(root, 0):  # it has died with the process
            found.append(unfinished(root))
            assert recover(root) == []
        end = states.index(contents(tree(root)))
        if end:
            apply(root, changes(back=True))
    print(f"{sum(found)} of {len(found)} killed halfway")
    assert sum(found) == 2


def contents(state):
    """A tree without modes: an update back gives files that are new again the usual one."""
    return {path: entry[1] for path, entry in state.items()}
