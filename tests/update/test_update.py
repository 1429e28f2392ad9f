"""What an update makes of each file: what the template changed, and what the user wrote."""

import os

import pytest
from updates import HOSTS, MODEL, PIPELINE, README, SHARDING, TOML, TRAIN, stamped

from redco_new import cli
from redco_new.render.carried import carried


def test_nothing_to_do(project):
    before = stamped(project.root)
    assert project.update() == (0, "my-project: nothing to update.\n", "")
    assert stamped(project.root) == before


def test_redco_new_updates_a_project(project, monkeypatch, capsys):
    monkeypatch.chdir(project.root.parent)
    project.edit(TRAIN, "10", "mine")
    assert cli.run(cli.new_app, "redco-new", ["my-project", "--shards", "8"]) == 0
    out, err = capsys.readouterr()
    assert (out.splitlines()[0], err) == ("Updated my-project: 3 files.", "")
    assert "mine" in project.read(TRAIN) and "model = 8" in project.read(TOML)


def test_untouched_files_become_the_templates(project):
    project.change(TRAIN, "10", "20")
    project.change(README, "Run it.", "Run it twice.")
    code, out, err = project.update()
    assert (code, err) == (0, "")
    assert out == (
        "Updated my-project: 2 files.\n"
        "  README.md                    +1 -1 lines\n"
        "  my_project/train.py          ~ main\n"
    )
    assert project.read(TRAIN) == project.template[TRAIN]
    assert "Run it twice." in project.read(README)


def test_edited_file_gets_the_change_of_another_symbol(project):
    project.edit(MODEL, "def up(x):\n    return x * WIDTH", "def up(x):\n    return mine(x)")
    project.change(MODEL, "y / WIDTH", "y * WIDTH")
    assert project.update()[0] == 0
    assert "return mine(x)" in project.read(MODEL)
    assert "y * WIDTH" in project.read(MODEL)


def test_moved_and_reformatted_symbols_are_no_edits(project):
    up = "def up(x):\n    return x * WIDTH\n"
    project.write(MODEL, project.read(MODEL).replace(up, "") + f"\n\n{up}")
    project.edit(TRAIN, "steps = 10", "steps = (\n        10\n    )")
    project.change(MODEL, "x * WIDTH", "x + WIDTH")
    project.change(TRAIN, "10", "20")
    assert project.update()[0] == 0
    assert project.read(MODEL).rstrip().endswith("def up(x):\n    return x + WIDTH")
    assert "20" in project.read(TRAIN) and "10" not in project.read(TRAIN)


@pytest.mark.parametrize("changed", [False, True])
def test_deleted_file_stays_deleted(project, changed):
    (project.root / TRAIN).unlink()
    if changed:
        project.change(TRAIN, "10", "20")
    out = project.update()[1]
    assert not (project.root / TRAIN).exists()
    assert ("note: my_project/train.py: you deleted it" in out) is changed


def test_deleted_symbol_stays_deleted(project):
    project.edit(MODEL, "def up(x):\n    return x * WIDTH\n\n\n", "")
    project.change(MODEL, "y / WIDTH", "y * WIDTH")
    assert project.update()[0] == 0
    assert "def up" not in project.read(MODEL)


def test_layout_is_that_of_the_merged_model(project):
    project.write(MODEL, project.read(MODEL) + "\n\ndef mine(x):\n    return x\n")
    project.change(MODEL, "def down(x)", "def new(x):\n    return x\n\n\ndef down(x)")
    assert project.update()[0] == 0
    assert '"defs": 4' in project.read(SHARDING)


def test_model_that_cannot_be_read_is_named_where_it_is(project, monkeypatch):
    from redco_new.errors import RedcoError
    from redco_new.update import plan

    def unread(derived, folder):
        raise RedcoError(f"{folder}/{MODEL}:8", "merged, it cannot be traced", "mend that line")

    monkeypatch.setattr(plan.Regeneration, "of_own_model", unread)
    project.edit(MODEL, "x * WIDTH", "mine")
    before = stamped(project.root)
    code, _, err = project.redco("update")
    assert (code, stamped(project.root)) == (2, before)
    assert err == f"redco: {MODEL}:8: merged, it cannot be traced; mend that line\n"


def test_new_file_of_the_template(project):
    project.template["launch/new.sh"] = "#!/bin/sh\n"
    assert project.update()[0] == 0
    assert os.access(project.root / "launch/new.sh", os.X_OK)


def test_new_file_that_the_user_has_already(project):
    project.write("launch/new.sh", "#!/bin/sh\n")
    project.template["launch/new.sh"] = "#!/bin/sh\n"
    assert project.update() == (0, "my-project: nothing to update.\n", "")


def test_new_file_where_the_user_has_another(project):
    project.write("launch/new.sh", "echo mine\n")
    project.template["launch/new.sh"] = "#!/bin/sh\n"
    code, _, err = project.update()
    assert code == 1 and "launch/new.sh::<file>" in err
    assert project.read("launch/new.sh") == "echo mine\n"


def test_file_that_the_template_drops_goes(project):
    del project.template[HOSTS]
    assert "launch/hosts.sh              removed" in project.update()[1]
    assert not (project.root / "launch").exists()


def test_edited_file_that_the_template_drops_stays(project):
    project.edit(HOSTS, "echo two", "echo mine")
    del project.template[HOSTS]
    told = "note: launch/hosts.sh: redco no longer writes it, and you edited it"
    assert told in project.update()[1]
    assert "echo mine" in project.read(HOSTS)
    project.template[HOSTS] = "#!/bin/sh\necho again\n"
    assert project.update()[0] == 1, "what it had written is not known any more"


def test_owned_function_is_never_merged_into(project):
    project.edit(PIPELINE, "return list(examples)", "return mine(examples)")
    project.change(PIPELINE, "def collate(examples):", "def collate(examples, pad=0):")
    code, out, _ = project.update()
    assert code == 0 and "my_project/pipeline.py::collate" in out
    assert "def collate(examples):\n    return mine(examples)" in project.read(PIPELINE)
    assert "+def collate(examples, pad=0):" in project.read(f".redco/incoming/{PIPELINE}.diff")


def test_partial_of_a_model_that_cannot_be_read(project, monkeypatch):
    from redco_new.errors import RedcoError
    from redco_new.update import plan

    def unread(derived, folder):
        raise RedcoError(f"{folder}/{MODEL}:8", "it cannot be traced", "mend that line")

    monkeypatch.setattr(plan.Regeneration, "of_own_model", unread)
    project.edit(MODEL, "x * WIDTH", "x * mine")
    project.edit(TRAIN, "steps = 10", "steps = 30")
    project.change(TRAIN, "steps = 10", "steps = 20")
    assert project.redco("update")[0] == 1, "the conflict comes first"
    code, _, err = project.redco("update", "--partial")
    assert (code, err) == (2, f"redco: {MODEL}:8: it cannot be traced; mend that line\n")


def test_folder_that_is_no_project(project):
    (project.root.parent / "other").mkdir()
    before = stamped(project.root)
    for folder, message in (
        ("../other", "../other: is not in a redco project"),
        ("nowhere", "nowhere: no such folder"),
    ):
        code, out, err = project.redco("update", folder, "--shards", "8")
        assert (code, out, stamped(project.root)) == (2, "", before)
        assert err.startswith(f"redco: {message}") and err.count("\n") == 1


@pytest.mark.parametrize("path", [PIPELINE, "my_project/mine.py"])
def test_what_the_users_code_imports_of_the_runtime_comes_and_stays(project, path):
    """In a file of redco's or of their own, which the import of a module that is not there stopped until then."""
    beam, package = "my_project/runtime/nn/beam.py", "my_project/runtime/__init__.py"
    text = (
        project.read(PIPELINE) + "\n\nfrom my_project.runtime.nn.beam import beam_search as mine\n"
    )
    project.write(path, text)
    out = project.update()[1]
    came = carried({path: "from redco_runtime.nn.beam import beam_search"}, "my_project")
    new = f"{len(came)} files, untouched, swapped: {len(came)} new"
    assert f"  runtime: {new}\n" in out and beam in came, out
    project.change(TRAIN, "10", "20")
    assert project.update()[1].splitlines()[0] == "Updated my-project: 1 file."
    project.write(path, text.replace("mine", "_").replace("beam", "another"))
    gone = len(
        came.keys() - carried({path: "import redco_runtime.nn"}, "my_project").keys()
    )  # the package is named
    assert f", untouched, swapped: {gone} removed\n" in project.update()[1]
    assert not (project.root / beam).exists() and (project.root / package).exists()


def test_a_file_of_the_runtime_that_became_the_users_keeps_what_it_imports(project):
    """Redco writes it no more and its user has edited it: what it names is there after the next update too."""
    text = project.template[TRAIN]
    project.template[TRAIN] = text + "\n\nfrom redco_runtime.nn.beam import beam_search\n"
    project.update()
    beam = "my_project/runtime/nn/beam.py"
    project.write(beam, project.read(beam) + "\n# mine\n")
    project.template[TRAIN] = text
    assert "it is all yours now" in project.update()[1]
    carried = sorted(p.name for p in (project.root / "my_project/runtime").rglob("*.py"))
    assert len(carried) > 3
    project.update()
    assert sorted(p.name for p in (project.root / "my_project/runtime").rglob("*.py")) == carried
