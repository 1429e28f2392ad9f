"""Files that are missing: generated ones come back, the user's stay deleted, and one comes back by name."""

import os
import shutil

import pytest
from updates import HOSTS, MODEL, PIPELINE, SHARDING, TRAIN, assert_whole, stamped

from redco_new import cli

RESTORED = (
    "Updated my-project: 1 file.\n"
    "  my_project/sharding.py       restored\n"
    "note: a generated file that is missing comes back: `redco eject` one to go without it\n"
)


def test_generated_file_comes_back(project):
    before = project.read(SHARDING)
    (project.root / SHARDING).unlink()
    assert project.update() == (0, RESTORED, "")
    assert project.read(SHARDING) == before
    assert_whole(project.root)
    assert project.redco("update") == (0, "my-project: nothing to update.\n", "")


def test_it_comes_back_as_it_is_written_today(project):
    project.edit(SHARDING, "PARAMS", "# mine that goes with its file\nPARAMS")
    (project.root / SHARDING).unlink()
    assert project.redco("update", "--shards", "8")[0] == 0
    assert '"model": 8' in project.read(SHARDING)


def test_it_comes_back_for_the_users_own_model(project):
    project.write(MODEL, project.read(MODEL) + "\n\ndef mine(x):\n    return x\n")
    (project.root / SHARDING).unlink()
    assert project.update()[0] == 0
    assert '"defs": 3' in project.read(SHARDING)


def test_script_comes_back_as_a_script_in_its_folder(project):
    project.template["launch/two.sh"] = "#!/bin/sh\n"
    project.update()
    shutil.rmtree(project.root / "launch")
    code, out, _ = project.update()
    assert (code, out.count("restored\n"), out.count("note: ")) == (0, 2, 1)
    assert os.access(project.root / HOSTS, os.X_OK)


def test_the_merged_project_is_tried_with_it(project):
    (project.root / SHARDING).unlink()
    tried = []
    project.trial = lambda folder: tried.append((folder / SHARDING).exists()) or []
    assert project.redco("update")[0] == 0
    assert tried == [True]


def test_looks_tell_it_and_write_nothing(project):
    text = project.read(SHARDING)
    (project.root / SHARDING).unlink()
    before = stamped(project.root)
    code, out, _ = project.redco("update", "--dry-run")
    assert code == 0
    assert out == RESTORED.replace(
        "Updated my-project: 1 file.", "my-project: 1 file would change."
    )
    assert project.redco("update", "--check") == (1, f"stale: {SHARDING}\n", "")
    assert '"restored"' in project.redco("update", "--check", "--json")[1]
    out = project.redco("update", "--diff")[1]
    assert out.startswith(f"--- /dev/null\n+++ b/{SHARDING}\n")
    assert all(f"+{line}\n" in out for line in text.splitlines())
    assert stamped(project.root) == before


def test_the_users_file_stays_deleted(project):
    (project.root / TRAIN).unlink()
    (project.root / SHARDING).unlink()
    assert project.update()[0] == 0
    assert not (project.root / TRAIN).exists() and (project.root / SHARDING).exists()
    assert project.redco("update", "--check") == (0, "", "")


def test_ejected_file_stays_deleted(project):
    (project.root / SHARDING).unlink()
    assert project.redco("eject", SHARDING)[0] == 0
    assert project.update() == (0, "my-project: nothing to update.\n", "")
    assert not (project.root / SHARDING).exists()


def test_file_that_the_template_drops_does_not_come_back(project):
    (project.root / HOSTS).unlink()
    del project.template[HOSTS]
    assert project.update()[0] == 0
    assert not (project.root / HOSTS).exists()


@pytest.mark.parametrize(
    "path", [PIPELINE, MODEL, TRAIN, SHARDING, HOSTS, "redco.toml", "README.md"]
)
def test_one_file_by_name(project, path):
    before = project.read(path)
    (project.root / path).unlink()
    said = project.redco("update", "--restore", path)
    assert said == (0, f"Restored {path}, as redco last wrote it.\n", "")
    assert project.read(path) == before
    assert os.access(project.root / path, os.X_OK) is (path == HOSTS)
    assert_whole(project.root)
    assert project.redco("update", "--check") == (0, "", "")


def test_its_last_text_and_not_todays(project):
    (project.root / TRAIN).unlink()
    project.change(TRAIN, "10", "20")
    assert project.redco("update", "--restore", TRAIN)[0] == 0
    assert "steps = 10" in project.read(TRAIN)
    assert project.update()[0] == 0
    assert "steps = 20" in project.read(TRAIN)


def test_nothing_else_is_touched(project):
    project.edit(MODEL, "x * WIDTH", "x * mine")
    (project.root / SHARDING).unlink()
    (project.root / TRAIN).unlink()
    before = stamped(project.root)
    project.redco("update", "--restore", TRAIN)
    after = stamped(project.root)
    assert after.keys() - before.keys() == {TRAIN}
    assert {path for path in before if before[path] != after[path]} == set()


def test_file_that_is_as_redco_wrote_it(project):
    before = stamped(project.root)
    said = project.redco("update", "--restore", TRAIN)
    assert said == (0, f"{TRAIN} is as redco last wrote it: nothing to restore.\n", "")
    assert stamped(project.root) == before


def test_edited_file_is_to_be_moved_aside(project):
    project.edit(TRAIN, "10", "mine")
    before = stamped(project.root)
    code, out, err = project.redco("update", "--restore", TRAIN)
    assert (code, out, stamped(project.root)) == (1, "", before)
    assert err == (
        f"redco: {TRAIN}: is not as redco wrote it, and nothing was written over it; move it aside "
        f"(mv {TRAIN} {TRAIN}.mine), and run it again\n"
    )
    (project.root / TRAIN).rename(project.root / f"{TRAIN}.mine")
    assert project.redco("update", "--restore", TRAIN)[0] == 0
    assert project.read(TRAIN) == project.template[TRAIN]
    assert "mine" in project.read(f"{TRAIN}.mine")
    assert project.update() == (0, "my-project: nothing to update.\n", "")


def test_from_another_folder(project, monkeypatch):
    (project.root / TRAIN).unlink()
    monkeypatch.chdir(project.root / "my_project")
    assert cli.run(cli.redco_app, "redco", ["update", "--restore", "train.py"]) == 0
    monkeypatch.chdir(project.root.parent)
    (project.root / TRAIN).unlink()
    args = ["update", "my-project", f"--restore=my-project/{TRAIN}"]
    assert cli.run(cli.redco_app, "redco", args) == 0
    assert project.read(TRAIN) == project.template[TRAIN]


def test_what_was_pending_of_it_is_settled(project):
    project.edit(PIPELINE, "list(examples)", "mine(examples)")
    project.change(PIPELINE, "list(examples)", "tuple(examples)")
    project.update()
    assert project.pending() == [f"{PIPELINE}::collate"]
    (project.root / PIPELINE).unlink()
    assert project.redco("update", "--restore", PIPELINE)[0] == 0
    assert project.pending() == [] and not (project.root / ".redco/incoming").exists()
    assert project.read(PIPELINE) == project.template[PIPELINE]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["notes.txt"], "--restore: redco did not write notes.txt; give the path of one file"),
        (["my_project"], "--restore: redco did not write my_project; give the path of one file"),
        (["../x"], "--restore: redco did not write ../x; "),
        ([".redco/manifest.json"], "--restore: redco did not write .redco/manifest.json; "),
        ([SHARDING], f"--restore: {SHARDING} is yours since you ejected it, and redco has no copy"),
        ([TRAIN, "--dry-run"], "command line: --dry-run and --restore are given; give one of them"),
        ([TRAIN, "--partial"], "command line: --partial and --restore are given; give one of them"),
        ([TRAIN, "--check"], "command line: --check and --restore are given; give one of them"),
        ([TRAIN, "--shards", "8"], "--restore: brings back what redco last wrote, and --shards 8"),
        ([TRAIN, "--json"], "--json: is the form of --check; give both"),
    ],
)
def test_bad(project, args, message):
    project.redco("eject", SHARDING)
    (project.root / TRAIN).unlink()
    before = stamped(project.root)
    code, out, err = project.redco("update", "--restore", *args)
    assert (code, out, err.count("\n"), stamped(project.root)) == (2, "", 1, before)
    assert err.startswith(f"redco: {message}")
