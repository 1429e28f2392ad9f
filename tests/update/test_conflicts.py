"""Conflicts: nothing is written until each is settled, either way, and settled is settled."""

import json

import pytest
from updates import HOSTS, MODEL, TRAIN, stamped

UP, DOWN = f"{MODEL}::up", f"{MODEL}::down"


@pytest.fixture
def clash(project):
    """`up` and `down` of model.py changed by both; train.py by the template alone."""
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.edit(MODEL, "y / WIDTH", "y / mine")
    project.change(MODEL, "x * WIDTH", "x + WIDTH")
    project.change(MODEL, "y / WIDTH", "y - WIDTH")
    project.change(TRAIN, "10", "20")
    return project


def known(project):
    return json.loads(project.read(".redco/manifest.json"))


def test_nothing_is_changed_but_what_is_remembered(clash):
    before, tree = known(clash), stamped(clash.root)
    code, out, err = clash.update()
    assert (code, out) == (1, "")
    assert err.startswith("2 conflicts, and nothing was changed:\n")
    assert f"  redco resolve {UP} --mine\n  redco resolve {UP} --theirs\n" in err
    assert err.endswith("  redco update --partial\n")
    after = {**known(clash), "pending": []}
    assert after == before
    names = stamped(clash.root).keys() - tree.keys()
    assert names == {".redco/incoming", ".redco/incoming/my_project"} | {
        f".redco/incoming/{MODEL}.diff"
    }
    changed = {k for k in tree if tree[k][2] != stamped(clash.root)[k][2]}
    assert changed == {".redco/manifest.json"}
    shown = clash.read(f".redco/incoming/{MODEL}.diff")
    assert "-    return x * WIDTH\n+    return x + WIDTH\n" in shown


def test_each_side(clash):
    clash.update()
    assert clash.settle((UP, "mine")) == f"still to settle: {DOWN}\n"
    assert clash.settle((DOWN, "theirs")) == "Settled: `redco update` goes by it.\n"
    code, out, err = clash.redco("update")
    assert (code, err) == (0, "")
    assert "return x * mine" in clash.read(MODEL) and "return y - WIDTH" in clash.read(MODEL)
    assert "20" in clash.read(TRAIN)
    assert not (clash.root / ".redco/incoming").exists()
    assert known(clash)["pending"] == []
    assert clash.update()[1] == "my-project: nothing to update.\n"


@pytest.mark.parametrize("side", ["mine", "theirs"])
def test_whole_file(clash, side):
    clash.update()
    clash.settle((MODEL, side))
    assert clash.redco("update")[0] == 0
    assert ("mine" in clash.read(MODEL)) is (side == "mine")


def test_one_decision_outlasts_an_update_that_still_conflicts(clash):
    clash.update()
    clash.settle((UP, "mine"))
    code, _, err = clash.update()
    assert code == 1 and UP not in err and DOWN in err
    clash.settle((DOWN, "mine"))
    assert clash.update()[0] == 0


def test_decision_can_be_changed_until_it_is_applied(clash):
    clash.update()
    clash.settle((UP, "theirs"), (UP, "mine"), (DOWN, "mine"))
    clash.update()
    assert "x * mine" in clash.read(MODEL)


def test_what_is_written_after_the_decision_is_not_given_up(clash):
    clash.update()
    clash.settle((UP, "theirs"), (DOWN, "theirs"))
    clash.edit(MODEL, "x * mine", "x * mine + mine_too")
    code, _, err = clash.update()
    assert code == 1 and UP in err and DOWN not in err
    assert "mine_too" in clash.read(MODEL)
    clash.settle((UP, "theirs"))
    assert clash.redco("update")[0] == 0
    assert clash.read(MODEL) == clash.template[MODEL]


def test_decision_is_void_once_the_template_changes_again(clash):
    clash.update()
    clash.settle((UP, "theirs"), (DOWN, "mine"))
    clash.change(MODEL, "x + WIDTH", "x - WIDTH")
    code, _, err = clash.update()
    assert code == 1 and UP in err and DOWN not in err
    assert "x * mine" in clash.read(MODEL)


def test_conflict_that_the_template_takes_back_is_forgotten(clash):
    clash.update()
    clash.change(MODEL, "x + WIDTH", "x * WIDTH")
    clash.change(MODEL, "y - WIDTH", "y / WIDTH")
    assert clash.update()[0] == 0
    assert known(clash)["pending"] == [] and not (clash.root / ".redco/incoming").exists()


def test_conflict_that_the_user_settles_by_hand(clash):
    clash.update()
    clash.write(MODEL, clash.template[MODEL])
    assert clash.update()[0] == 0
    assert known(clash)["pending"] == []


def test_partial(clash):
    code, out, err = clash.update("--partial")
    assert (code, err) == (1, "")
    assert f"  redco resolve {UP} --mine\n  redco resolve {UP} --theirs\n" in out
    assert "x * mine" in clash.read(MODEL) and "20" in clash.read(TRAIN)
    assert clash.pending() == [DOWN, UP] or clash.pending() == [UP, DOWN]
    assert clash.update()[0] == 0, "what is applied is no conflict any more"
    assert set(clash.pending()) == {UP, DOWN}
    clash.settle((UP, "theirs"))
    assert "x + WIDTH" in clash.read(MODEL) and "y / mine" in clash.read(MODEL)
    assert clash.settle((DOWN, "mine")) == "Settled.\n"
    assert clash.pending() == [] and not (clash.root / ".redco/incoming").exists()


def test_lines_of_a_text_file_before_they_are_applied(project):
    project.edit(HOSTS, "echo two", "echo mine")
    project.change(HOSTS, "echo two", "echo 2")
    project.update()
    project.settle((HOSTS, "theirs"))
    assert project.redco("update")[0] == 0
    assert project.read(HOSTS) == project.template[HOSTS]


def test_what_is_not_pending(clash):
    message = "redco: PATH: x.py is not pending; there is nothing to resolve\n"
    assert clash.redco("resolve", "x.py", "--mine") == (2, "", message)
    clash.update()
    code, _, err = clash.redco("resolve", f"{MODEL}::other", "--mine")
    assert code == 2 and UP in err and DOWN in err


def test_from_another_folder(clash, monkeypatch):
    clash.update()
    (clash.root / "runs").mkdir()
    from redco_new import cli

    monkeypatch.chdir(clash.root / "runs")
    assert cli.run(cli.redco_app, "redco", ["resolve", f"../{UP}", "--mine"]) == 0
    monkeypatch.chdir(clash.root.parent)
    assert cli.run(cli.redco_app, "redco", ["resolve", f"my-project/{DOWN}", "--mine"]) == 0
    assert clash.redco("update")[0] == 0


def test_what_to_type_next_fits_the_working_folder(clash, monkeypatch, capsys):
    from redco_new import cli

    monkeypatch.chdir(clash.root.parent)
    assert cli.run(cli.new_app, "redco-new", ["my-project", "--dtype", "float32"]) == 1
    err = capsys.readouterr().err
    assert f"  redco resolve my-project/{UP} --theirs\n" in err
    assert "is in my-project/.redco/incoming/." in err
    assert "\n  redco update my-project --dtype float32\n" in err


@pytest.mark.parametrize("side", ["mine", "theirs"])
def test_a_file_of_the_users_where_redco_writes_one_by_now_is_not_woven_into(project, side):
    path = "my_project/prepare.py"
    (project.root / path).write_text("mine = 1\n")
    project.template[path] = "def main():\n    return 2\n"
    code, _, err = project.update()
    assert code == 1 and "yours is none of its: rename yours, or take its side" in err
    assert project.read(path) == "mine = 1\n"
    project.settle((path, side))
    assert project.redco("update")[0] == 0
    assert project.read(path) == ("mine = 1\n" if side == "mine" else project.template[path])
    assert project.update()[1] == "my-project: nothing to update.\n"
