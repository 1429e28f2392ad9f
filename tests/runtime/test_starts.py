"""starts.jsonl: what each start of a run ran with."""

import json
import shlex
import subprocess
import sys
from importlib.metadata import version

import jax
import pytest
from linear import MESH, PIPELINE, examples, read

from redco_runtime.run import history as starts


def test_each_start_is_a_line(run, steps, tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    monkeypatch.setenv("SECRET_TOKEN", "y")
    monkeypatch.setattr(steps, "options", {"xla_gpu_autotune_level": 1})
    run(tmp_path, steps=2)
    with open(tmp_path / "starts.jsonl", "a") as file:
        file.write('{"id": "a", "st')  # a kill cut it short
    run(tmp_path, steps=3)
    first, second = read(tmp_path / "starts.jsonl")
    assert (first["step"], second["step"]) == (0, 2) and first["id"] == second["id"]
    assert (first["config"]["train"]["steps"], second["config"]["train"]["steps"]) == (2, 3)
    assert shlex.split(first["command"]) == sys.orig_argv
    assert first["mesh"] == MESH and first["devices"]["count"] == jax.device_count()
    assert first["versions"]["jax"] == version("jax") and first["versions"]["linear"] is None
    assert len(first["hosts"]) == 1 and first["environment"]["XLA_FLAGS"] == "--xla_dump_to=x"
    assert first["compiler_options"] == {"xla_gpu_autotune_level": 1}
    assert "SECRET_TOKEN" not in json.dumps(first)


@pytest.fixture
def git(tmp_path):
    """git(*args): git in a folder of its own."""

    def git(*args):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *identity, *args]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    return git


def test_the_commit_and_whether_files_of_it_were_changed(git, tmp_path):
    assert starts._git(tmp_path) is None
    git("init", "-q")
    assert starts._git(tmp_path) is None  # nothing is committed
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-qm", "a")
    (tmp_path / "b").write_text("untracked")
    commit = git("rev-parse", "HEAD").strip()
    assert starts._git(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "a").write_text("2")
    assert starts._git(tmp_path) == {"commit": commit, "dirty": True}


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert starts._git(tmp_path) is None


def test_what_goes_on_otherwise_is_said(run, tmp_path, monkeypatch, capsys):
    run(tmp_path, steps=2)
    run(tmp_path, steps=4)
    assert "warning: " not in capsys.readouterr().out
    monkeypatch.setattr(PIPELINE, "examples", lambda config: (examples(12), examples(6)[1:]))
    run(tmp_path, steps=4)  # nothing is trained
    run(tmp_path, steps=6, batch_size=8, seed=1)
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("warning: ")]
    assert "--batch-size was 4 and is 8; --seed was 0 and is 1; the training " in line
    assert "rows were 10 and are 12 others; the held-out rows were 5 and are 5 others; " in line
    assert "held-out losses are of other rows" in line and "--steps" not in line
