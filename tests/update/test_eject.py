"""Ejected files: the header says so, nothing else changes, and updates leave them alone."""

import pytest
from updates import HOSTS, SHARDING, TRAIN, assert_whole, base_of

from redco_new.render.owners import EJECTED


def test_file(project):
    project.write(SHARDING, project.read(SHARDING) + "# mine\n")
    before = project.read(SHARDING)
    code, out, err = project.redco("eject", SHARDING)
    assert (code, out, err) == (
        0,
        f"{SHARDING} is yours: redco leaves it alone from now on.\n",
        "",
    )
    head, _, rest = project.read(SHARDING).partition("\n")
    assert (head, rest) == (EJECTED, before.partition("\n")[2])
    assert SHARDING not in base_of(project.root)
    assert_whole(project.root)
    after = project.read(SHARDING)
    assert project.update("--shards", "8")[0] == 0
    assert project.read(SHARDING) == after
    assert project.redco("update", "--check")[0] == 0


def test_folder(project):
    project.template["launch/pod.yaml"] = "a: 1\n"
    project.update()
    code, out, _ = project.redco("eject", "launch/")
    assert (code, out.count("\n")) == (0, 2)
    project.change(HOSTS, "echo two", "echo 2")
    del project.template["launch/pod.yaml"]
    assert project.update()[1] == "my-project: nothing to update.\n"
    assert project.read("launch/pod.yaml") == "a: 1\n"


def test_package_but_for_what_is_yours(project):
    code, out, _ = project.redco("eject", "my_project")
    assert (code, out.count("\n")) == (0, 1)
    project.change(TRAIN, "10", "20")
    project.update()
    assert "20" in project.read(TRAIN)


def test_what_is_pending_of_it_goes(project):
    project.edit(HOSTS, "echo two", "echo mine")
    project.change(HOSTS, "echo two", "echo 2")
    project.update("--partial")
    assert project.redco("eject", HOSTS)[0] == 0
    assert project.pending() == [] and not (project.root / ".redco/incoming").exists()
    assert "mine" in project.read(HOSTS)


def test_deleted_file(project):
    (project.root / SHARDING).unlink()
    assert project.redco("eject", SHARDING)[0] == 0
    project.update("--shards", "8")
    assert not (project.root / SHARDING).exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (TRAIN, f"PATH: {TRAIN} is yours already: redco merges into it"),
        ("notes.txt", "PATH: redco did not write notes.txt; see .redco/manifest.json"),
        ("../x", "../x: is not in a redco project: no .redco/manifest.json, here or above"),
        ("", "PATH: redco did not write .; see"),
        ("/x", "/x: is not in a redco project: no .redco/manifest.json, here or above"),
        ("laun", "PATH: redco did not write laun; see"),
    ],
)
def test_refused(project, target, message):
    code, out, err = project.redco("eject", target)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"redco: {message}")


def test_twice(project):
    project.redco("eject", SHARDING)
    message = f"redco: PATH: {SHARDING} is yours already; there is nothing to do\n"
    assert project.redco("eject", SHARDING) == (2, "", message)
