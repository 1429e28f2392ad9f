"""Updates in processes of their own: two at once, killed at any moment, interrupted, on a full disk."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from updates import HOSTS, MODEL, TRAIN, Project, assert_whole, stamped

CHILD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
if {bytes}:
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
sys.path[:0] = {path!r}
import pytest, updates
from redco_new import cli

project = updates.Project.__new__(updates.Project)
project.template = {template!r}
patch = pytest.MonkeyPatch()

def trial(folder):
    print("trying", flush=True)
    time.sleep({seconds})
    return []

project.trial = trial
project.install(patch)
os.chdir({root!r})
cli.redco_main()
"""


@pytest.fixture
def stale(project) -> Project:
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.change(TRAIN, "10", "20")
    project.change(HOSTS, "echo two", "echo 2")
    project.template["launch/new.sh"] = "#!/bin/sh\n" * 100
    return project


def start(project: Project, *args: str, seconds: float = 0, bytes: int = 0) -> subprocess.Popen:
    """`redco ARGS` in a process whose trial takes so long, and tells when it begins.

    bytes: that no file may grow above, if any.
    """
    code = CHILD.format(
        path=sys.path,
        template=project.template,
        root=str(project.root),
        seconds=seconds,
        bytes=bytes,
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *(args or ["update"])]
    env = os.environ | {"TMPDIR": str(project.root.parent)}  # a kill leaves a mirror behind
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def contents(root) -> dict:
    return {path: entry[2] for path, entry in stamped(root).items()}


def test_two_at_once(stale):
    with start(stale, seconds=1) as first:
        assert first.stdout.readline() == "trying\n"
        with start(stale, "update", "--shards", "8") as second:
            results = ended(first), ended(second)
    assert [(code, err) for code, _, err in results] == [(0, ""), (0, "")]
    assert "20" in stale.read(TRAIN) and "model = 8" in stale.read("redco.toml")
    assert stale.redco("update")[1] == "my-project: nothing to update.\n"
    assert_whole(stale.root)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_interrupted(stale, number, code):
    before = contents(stale.root)
    with start(stale, seconds=60) as process:
        assert process.stdout.readline() == "trying\n"
        process.send_signal(number)
        ended_with, _, err = ended(process)
    assert ended_with == code
    assert err.count("\n") <= 1 and "Traceback" not in err
    assert contents(stale.root) == before


@pytest.mark.slow
def test_killed_at_random_moments(stale, tmp_path):
    whole = tmp_path / "whole"
    shutil.copytree(stale.root, whole)
    copy = Project.__new__(Project)
    copy.root, copy.template = whole, stale.template
    assert copy.redco("update")[0] == 0
    for seed in range(8):
        copy.root = tmp_path / f"killed-{seed}"
        shutil.copytree(stale.root, copy.root)
        with start(copy) as process:
            assert process.stdout.readline() == "trying\n"
            time.sleep(random.Random(seed).uniform(0, 0.03))
            process.kill()
            ended(process)
        assert copy.redco("update")[0] == 0
        assert contents(copy.root) == contents(whole)


def test_full_disk(stale):
    before = contents(stale.root)
    with start(stale, bytes=1000) as process:
        code, _, err = ended(process)
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be written: File too large, and nothing was changed" in err
    assert contents(stale.root) == before
    assert stale.redco("update")[0] == 0
