"""--check, --dry-run and --diff: they tell what an update would do, and write nothing at all."""

import json
import os
import subprocess

import pytest
from updates import HOSTS, MODEL, PIPELINE, SHARDING, TRAIN, Project, stamped

LOOKS = (["--check"], ["--check", "--json"], ["--dry-run"], ["--diff"], ["--diff", TRAIN])


@pytest.fixture
def stale(project) -> Project:
    """train.py and hosts.sh to be changed, a new file, and one that goes."""
    project.change(TRAIN, "10", "20")
    project.edit(HOSTS, "echo three", "echo three  # mine")
    project.change(HOSTS, "echo one\n", "")
    project.template["launch/new.sh"] = "#!/bin/sh\n"
    del project.template[SHARDING]
    return project


@pytest.fixture
def clash(stale) -> Project:
    stale.edit(MODEL, "x * WIDTH", "x * mine")
    stale.change(MODEL, "x * WIDTH", "x + WIDTH")
    stale.edit(PIPELINE, "list(examples)", "mine(examples)")
    stale.change(PIPELINE, "list(examples)", "tuple(examples)")
    return stale


def all_of(root) -> dict:
    """As `stamped`, with the lock."""
    found = {"lock": (root / ".redco/lock").exists()}
    return {**stamped(root), **found}


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_is_written(clash, look):
    before = all_of(clash.root)
    code, _, err = clash.redco("update", *look)
    assert (code, err) == (1, "")
    assert all_of(clash.root) == before


@pytest.mark.parametrize("look", LOOKS)
def test_on_a_disk_that_is_read_only(clash, look, monkeypatch):
    real = os.open

    def read_only(path, flags, *args, **options):
        written = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        assert not (written and str(path).startswith(str(clash.root))), path
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", read_only)
    for name in ("mkdir", "unlink", "replace", "rename", "utime"):
        monkeypatch.setattr(os, name, guarded(clash.root, getattr(os, name)))
    assert clash.redco("update", *look)[0] == 1


def guarded(root, call):
    def guard(path, *args, **options):
        assert not str(path).startswith(str(root)), path
        return call(path, *args, **options)

    return guard


@pytest.mark.parametrize("look", LOOKS)
def test_nothing_to_do(project, look):
    code, out, err = project.redco("update", *look)
    assert (code, err) == (0, "")
    if look[-1] == "--json":
        assert json.loads(out) == {"stale": {}, "conflicts": [], "pending": []}
    elif look != ["--dry-run"]:
        assert out == ""


def test_check_tells_each_kind(clash):
    code, out, _ = clash.redco("update", "--check", "--json")
    assert code == 1
    assert json.loads(out) == {
        "stale": {
            HOSTS: ["+0 -1 lines"],
            "launch/new.sh": ["new"],
            SHARDING: ["removed"],
            TRAIN: ["~ main"],
        },
        "conflicts": [f"{MODEL}::up"],
        "pending": [f"{PIPELINE}::collate"],
    }
    lines = clash.redco("update", "--check")[1].splitlines()
    assert lines[0] == f"stale: {HOSTS}" and f"conflict: {MODEL}::up" not in lines
    assert f"conflicts: {MODEL}::up" in lines


@pytest.mark.parametrize("kind", ["stale", "conflict", "pending", "flag"])
def test_each_kind_alone_is_drift(project, kind):
    flags = ["--shards", "8"] if kind == "flag" else []
    if kind == "stale":
        project.change(TRAIN, "10", "20")
    if kind in ("conflict", "pending"):
        path = {"conflict": TRAIN, "pending": PIPELINE}[kind]
        old = {"conflict": "10", "pending": "list"}[kind]
        project.edit(path, old, "mine")
        project.change(path, old, "theirs")
    assert project.redco("update", "--check", *flags)[0] == 1
    if kind == "pending":
        project.update()
        assert project.redco("update", "--check")[0] == 1, "until it is settled"


def test_dry_run(clash):
    code, out, _ = clash.redco("update", "--dry-run")
    assert code == 1
    assert out.startswith("my-project: 4 files would change.\n")
    assert f"\nconflict: {MODEL}::up: " in out
    assert f"\npending: {PIPELINE}::collate: " in out


def test_diff_is_a_patch(stale, tmp_path):
    stale.write(TRAIN, stale.read(TRAIN).replace("\n", "\r\n") + "\x0c# mine \u2028 too")
    code, out, _ = stale.redco("update", "--diff")
    assert code == 0
    patched = tmp_path / "patched"
    subprocess.run(["cp", "-r", stale.root, patched], check=True)
    subprocess.run(["git", "apply", "-"], cwd=patched, input=out.encode(), check=True)
    stale.update()
    assert contents(patched) == contents(stale.root)


def contents(root):
    skipped = (".redco",)
    return {k: v[2] for k, v in stamped(root).items() if not k.startswith(skipped)}


def test_diff_of_one_file(stale):
    out = stale.redco("update", "--diff", TRAIN)[1]
    assert out.startswith(f"--- a/{TRAIN}\n+++ b/{TRAIN}\n")
    assert out.count("\n--- ") == 0
    assert stale.redco("update", f"--diff=./{TRAIN}")[1] == out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--diff", "no.py"], "--diff: no.py is no file that redco writes; see --dry-run"),
        (["--json"], "--json: is the form of --check; give both"),
        (["--dry-run", "--partial"], "command line: --dry-run and --partial are given; give one"),
        (["--check", "--diff"], "command line: --diff and --check are given; give one of them"),
    ],
)
def test_bad_flags(project, args, message):
    code, out, err = project.redco("update", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"redco: {message}")
