"""What redco remembers of a project, and its runtime, as one thing each; and the layout of older redcos."""

import random
import shutil

import pytest
from test_archive import HOSTILE
from updates import HOSTS, MODEL, SHARDING, TOML, TRAIN, assert_whole, base_of, files
from updates import stamped, to_older_layout

from redco_new.project.archive import MOST_PACKED, pack
from redco_new.project.records import BASE, BRING_BACK
from redco_new.transaction import MANIFEST, sha256
from redco_new.update.former import OLDER_UNDO, UNDO

RUNTIME = {f"my_project/runtime/{name}.py": f"def {name}():\n    return 1\n" for name in "abc"}
A, B, C = RUNTIME


@pytest.fixture
def carrying(project):
    """A project with a runtime of three files."""
    project.template |= RUNTIME
    assert project.update()[0] == 0
    (project.root / UNDO).unlink()
    return project


def swap(project, old="1", new="2"):
    for path in RUNTIME:
        project.change(path, f"return {old}", f"return {new}")


def test_a_runtime_that_nobody_edited_is_swapped_as_one(carrying):
    del carrying.template[C]
    carrying.template["my_project/runtime/d.py"] = ""
    for path in (A, B):
        carrying.change(path, "return 1", "return 2")
    line = "  runtime: 4 files, untouched, swapped: 1 new, 1 removed\n"
    assert carrying.redco("update", "--dry-run")[1].endswith(line)
    assert carrying.update() == (0, "Updated my-project: 4 files.\n" + line, "")
    assert base_of(carrying.root)[A] == carrying.read(A).encode()
    assert "my_project/runtime/d.py" in base_of(carrying.root)


def test_edited_files_of_the_runtime_are_merged_alone(carrying):
    carrying.write(B, carrying.read(B) + "\n\ndef mine():\n    return 1\n")
    (carrying.root / C).unlink()
    swap(carrying)
    code, out, err = carrying.update()
    assert (code, err) == (0, "")
    assert "  runtime: 1 file, untouched, swapped\n" in out
    assert "  my_project/runtime/b.py      ~ b\n" in out and f"{C}      restored\n" in out
    assert "return 2" in carrying.read(B) and "def mine" in carrying.read(B)


def test_edits_are_shown_of_the_runtime_too(carrying):
    assert carrying.redco("diff") == (0, "", "")
    carrying.edit(B, "return 1", "return 1  # mine")
    carrying.edit(MODEL, "WIDTH = 8", "WIDTH = 9")
    (carrying.root / HOSTS).unlink()
    carrying.write("notes.py", "not redco's\n")
    before = stamped(carrying.root)
    code, out, err = carrying.redco("diff")
    assert (code, err, stamped(carrying.root)) == (0, "", before)
    assert [x for x in out.splitlines() if x.startswith("---")] == [
        f"--- a/{path}" for path in (HOSTS, MODEL, B)
    ]
    assert "-    return 1\n+    return 1  # mine\n" in out and "+++ /dev/null\n" in out
    assert "return 1" not in carrying.redco("diff", MODEL)[1]
    assert carrying.redco("diff", "my_project/runtime")[1].count("--- a/") == 1
    code, out, err = carrying.redco("diff", "notes.py")
    assert (code, out, err) == (
        2,
        "",
        "redco: PATH: redco wrote no file notes.py; see redco diff, without it\n",
    )


def refused(project, message):
    """One line, exit code 2, nothing written, whatever the command."""
    before = stamped(project.root)
    looks = (["update", "--check"], ["update", "--restore", TRAIN], ["diff"])
    for command in (["update"], *looks, ["eject", SHARDING]):
        code, out, err = project.redco(*command)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert message in err and BRING_BACK in err
        assert stamped(project.root) == before


@pytest.mark.parametrize("name", ["no xz", "torn", "parent", "twice", "link", "device", "sparse"])
def test_an_archive_that_is_damaged_or_hostile(carrying, name):
    carrying.write(BASE, HOSTILE[name])
    refused(carrying, f"{BASE}: is damaged: ")


def test_an_archive_that_is_missing_or_no_file_or_too_large(carrying):
    (carrying.root / BASE).unlink()
    refused(carrying, f"{BASE}: is missing; ")
    (carrying.root / BASE).mkdir()
    refused(carrying, f"{BASE}: is no plain file of at most 8 MB; delete it, and ")
    (carrying.root / BASE).rmdir()
    with open(carrying.root / BASE, "wb") as file:
        file.truncate(MOST_PACKED + 1)  # sparse: no disk is written
    refused(carrying, f"{BASE}: is no plain file of at most 8 MB; ")


@pytest.mark.parametrize("path", [TRAIN, B, "my_project/runtime/new.py", "new.py"])
def test_an_archive_of_another_update(carrying, path):
    carrying.write(BASE, pack(base_of(carrying.root) | {path: b"another = 1\n"}))
    refused(carrying, f"{BASE}: does not fit {MANIFEST}: they are not of one update; ")


def test_a_manifest_of_another_update(carrying):
    manifest = carrying.read(MANIFEST)
    swap(carrying)
    carrying.update()
    carrying.write(MANIFEST, manifest)
    refused(carrying, f"{BASE}: does not fit {MANIFEST}")


def test_records_of_two_layouts(carrying):
    base = (carrying.root / BASE).read_bytes()
    to_older_layout(carrying.root)
    carrying.write(BASE, base)
    refused(carrying, f"{BASE}: does not fit {MANIFEST}")


def test_an_archive_of_no_text(carrying):
    carrying.write(BASE, pack({TRAIN: b"\xff"}))
    refused(carrying, f"{BASE}: is damaged: 'utf-8' codec")


def test_the_same_contents_of_another_xz_stay(carrying, monkeypatch):
    """So that two machines do not write it in turn."""
    monkeypatch.setattr("redco_new.project.archive.PRESET", 6)
    packed = pack(base_of(carrying.root))
    assert packed != (carrying.root / BASE).read_bytes()
    carrying.write(BASE, packed)
    monkeypatch.undo()
    carrying.install(monkeypatch)
    assert carrying.update()[1] == "my-project: nothing to update.\n"
    assert (carrying.root / BASE).read_bytes() == packed


# Projects of older redcos.


@pytest.fixture
def older(carrying):
    to_older_layout(carrying.root)
    return carrying


def test_an_update_brings_the_layout_over(older):
    older.edit(TRAIN, "steps = 10", "steps = 10  # mine")
    older.edit(B, "return 1", "return 1  # mine")
    older.change(TRAIN, "return steps", "return 2 * steps")
    swap(older)
    assert older.redco("update")[0] == 0
    assert_whole(older.root)
    assert "10  # mine" in older.read(TRAIN) and "2 * steps" in older.read(TRAIN)
    assert "# mine" in older.read(B) and "return 2" in older.read(A)


def test_an_update_with_nothing_else_to_do_brings_it_over_too(older):
    assert older.update() == (0, "my-project: nothing to update.\n", "")
    assert_whole(older.root)


@pytest.mark.parametrize(
    "command", [["update", "--check"], ["update", "--dry-run"], ["update", "--diff"], ["diff"]]
)
def test_looks_read_the_older_layout(older, command):
    before = stamped(older.root)
    assert older.redco(*command)[0] == 0
    assert stamped(older.root) == before


@pytest.mark.parametrize(
    "command",
    [["eject", SHARDING], ["update", "--restore", TRAIN], ["eject", "my_project/runtime"]],
)
def test_other_commands_bring_it_over(older, command):
    (older.root / TRAIN).unlink()
    assert older.redco(*command)[0] == 0
    assert_whole(older.root)


def test_an_update_of_the_older_layout_is_taken_back(older):
    before = {path: path.read_bytes() for path in older.root.rglob("*") if path.is_file()}
    before = {path: x for path, x in before.items() if path.name != "lock"}
    swap(older)
    assert older.update("--shards", "8")[0] == 0
    assert older.redco("undo")[0] == 0
    found = {path: path.read_bytes() for path in older.root.rglob("*") if path.is_file()}
    assert {path: x for path, x in found.items() if path.name != "lock"} == before


def test_what_an_older_redco_kept_is_taken_back_and_goes_with_the_next_update(older):
    text = '{"schema": 1, "files": [{"path": "redco.toml", "before": "YQ==", "after": "AFTER"}]}'
    text = text.replace("AFTER", sha256((older.root / TOML).read_bytes()))
    older.write(OLDER_UNDO, text)
    copy = shutil.copytree(older.root, older.root.with_name("copy"))
    assert older.redco("undo") == (
        0,
        "as before the update: redco.toml\nUndone: 1 files are as they were before the last update.\n",
        "",
    )
    assert older.read(TOML) == "a" and not (older.root / OLDER_UNDO).exists()
    older.root = copy
    assert older.redco("update", "--shards", "8")[0] == 0
    assert not (copy / OLDER_UNDO).exists() and (copy / UNDO).exists()


# What .redco/ takes.


def test_what_an_update_kept_is_not_there_twice(carrying):
    """The new base has what did not change."""
    noise = random.Random(0).randbytes(60_000).hex()
    carrying.template["my_project/runtime/noise.py"] = f"# {noise}\n"
    carrying.update()
    swap(carrying)
    carrying.update()
    assert (
        (carrying.root / UNDO).stat().st_size
        < 4_000
        < 60_000
        < (carrying.root / BASE).stat().st_size
    )
    before = files(carrying.root)
    assert carrying.redco("undo")[0] == 0
    assert_whole(carrying.root)
    assert carrying.redco("update")[0] == 0 and files(carrying.root) == before
