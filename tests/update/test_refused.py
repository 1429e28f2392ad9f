"""Updates that do not come to an end: nothing is written, and what is left is put right."""

import pytest
from disk_faults import Calls, Killed, killed_at, on
from updates import HOSTS, MODEL, TRAIN, stamped, to_older_layout

from redco_new.errors import Refusal
from redco_new.transaction import unfinished


@pytest.fixture
def stale(project):
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.change(TRAIN, "10", "20")
    project.change(HOSTS, "echo two", "echo 2")
    project.redco("update", "--check")
    return project


def test_trial_that_fails(stale):
    def fail(project):
        assert "20" in (project / TRAIN).read_text(), "it is the merged project that is tried"
        raise Refusal(f"{TRAIN}:2", "merged, it does not run", "change yours to fit it")

    stale.trial = fail
    before = stamped(stale.root)
    code, out, err = stale.redco("update")
    assert (code, out) == (1, "")
    assert err == f"redco: {TRAIN}:2: merged, it does not run; change yours to fit it\n"
    assert stamped(stale.root) == before


def test_notes_of_the_trial(stale):
    stale.trial = lambda project: ["one step was not tried"]
    assert "note: one step was not tried\n" in stale.redco("update")[1]


def test_no_trial_where_no_python_changes(project):
    project.trial = lambda project: 1 / 0
    project.change(HOSTS, "echo two", "echo 2")
    assert project.update()[0] == 0


@pytest.mark.parametrize("how", ["edited", "deleted", "appears"])
def test_file_that_changes_while_the_update_runs(stale, how):
    if how == "appears":
        stale.template["launch/new.sh"] = "#!/bin/sh\n"

    def meanwhile(project):
        if how == "deleted":
            (stale.root / HOSTS).unlink()
        else:
            stale.write("launch/new.sh" if how == "appears" else HOSTS, "echo mine\n")
        return []

    stale.trial = meanwhile
    train = stale.read(TRAIN)
    code, out, err = stale.redco("update")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "changed while the update was worked out, and nothing was written" in err
    assert stale.read(TRAIN) == train
    assert not (stale.root / ".redco/staging").exists()


def test_file_that_no_update_touches_may_change_meanwhile(stale):
    stale.trial = lambda project: stale.write("notes.txt", "mine\n") or []
    assert stale.update()[0] == 0


def interrupted(project, at: int) -> None:
    with pytest.raises(Killed), on(killed_at(at)):
        project.redco("update")


def calls(project) -> int:
    with on(Calls()) as found:
        project.redco("update")
    return len(found.made)


@pytest.mark.parametrize("lay", [lambda root: None, to_older_layout], ids=["today", "older"])
def test_killed_at_any_call(tmp_path, monkeypatch, lay):
    from updates import Project

    def fresh(name):
        made = Project(tmp_path / name)
        made.install(monkeypatch)
        lay(made.root)
        made.edit(MODEL, "x * WIDTH", "x * mine")
        made.change(TRAIN, "10", "20")
        made.change(HOSTS, "echo two", "echo 2")
        return made

    whole = fresh("whole")
    number = calls(whole)
    assert number > 30
    for at in range(0, number, 5):
        project = fresh(f"at-{at}")
        interrupted(project, at)
        assert project.redco("update")[0] == 0
        assert contents(project.root) == contents(whole.root)


def contents(root):
    return {path: entry[2] for path, entry in stamped(root).items()}


def left_by_a_kill(project) -> None:
    """An unfinished transaction."""
    at = 0
    while not unfinished(project.root):
        interrupted(project, at)
        at += 8


@pytest.mark.parametrize("look", ["--check", "--dry-run", "--diff"])
def test_looks_at_an_interrupted_update(stale, look):
    left_by_a_kill(stale)
    before = stamped(stale.root)
    message = "redco: .: an update of it was interrupted; run `redco update`\n"
    assert stale.redco("update", look) == (1, "", message)
    assert stamped(stale.root) == before


def test_edit_after_an_interrupted_update_is_kept_and_told(stale):
    left_by_a_kill(stale)
    stale.write("launch/hosts.sh", "echo mine\n")
    code, out, err = stale.redco("update", "--partial")
    assert stale.read(HOSTS) == "echo mine\n"
    assert f"{HOSTS} was changed while an update was interrupted: it is as you left it" in err
