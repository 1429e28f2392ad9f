"""What redco remembers, gone or wrong: nothing of the user's is lost, and nothing bad is followed."""

import json

import pytest
from updates import HOSTS, MODEL, SHARDING, TRAIN, Project, assert_whole, stamped

from redco_new.project.manifest import base_path, read_manifest

MANIFEST = ".redco/manifest.json"
COPIES = (None, b"", b"something else\n")


def damage(project: Project, path: str, copy: bytes | None) -> None:
    if copy is None:
        (project.root / base_path(path)).unlink()
    else:
        project.write(base_path(path), copy)


@pytest.mark.parametrize("copy", COPIES)
def test_copy_of_a_file_that_is_untouched(project, copy):
    damage(project, TRAIN, copy)
    project.change(TRAIN, "10", "20")
    assert project.redco("update", "--check")[0] == 1
    assert project.update()[0] == 0
    assert project.read(TRAIN) == project.template[TRAIN]


@pytest.mark.parametrize("copy", COPIES)
def test_copy_of_a_file_that_the_template_writes_as_before(project, copy):
    project.edit(TRAIN, "10", "mine")
    damage(project, TRAIN, copy)
    code, out, _ = project.redco("update", "--check")
    assert (code, out) == (1, "damaged: .redco/base/my_project/train.py.base\n")
    assert project.update()[0] == 0
    assert "mine" in project.read(TRAIN)
    assert project.redco("update", "--check")[0] == 0


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize(
    ("path", "old"), [(TRAIN, "10"), (HOSTS, "echo two"), (MODEL, "x * WIDTH")]
)
def test_copy_of_a_file_that_both_changed(project, path, old, copy):
    project.edit(path, old, "mine")
    damage(project, path, copy)
    project.change(path, old, "theirs")
    before = project.read(path)
    assert project.redco("update")[0] == 1
    assert project.read(path) == before
    assert project.redco("resolve", path, "--mine")[0] == 0
    assert project.redco("update")[0] == 0
    assert project.read(path) == before
    assert_whole(project.root)


@pytest.mark.parametrize("copy", COPIES)
def test_copy_of_a_file_that_the_template_drops(project, copy):
    project.edit(HOSTS, "echo two", "echo mine")
    damage(project, HOSTS, copy)
    damage(project, TRAIN, copy)
    del project.template[HOSTS], project.template[TRAIN]
    assert project.update()[0] == 0
    assert "mine" in project.read(HOSTS)
    assert not (project.root / TRAIN).exists()


@pytest.mark.parametrize("copy", COPIES)
def test_copy_of_a_file_that_the_user_deleted(project, copy):
    (project.root / TRAIN).unlink()
    damage(project, TRAIN, copy)
    project.change(TRAIN, "10", "20")
    assert project.update()[0] == 0
    assert not (project.root / TRAIN).exists()


def test_all_copies_gone(project):
    for path in project.template:
        project.write(path, project.read(path) + "# mine\n")
        damage(project, path, None)
    assert project.update()[0] == 0


def with_entry(key, value):
    def change(content):
        content[key] = value

    return change


def with_file(path, digest="0" * 64):
    def change(content):
        content["files"][path] = {"owner": "yours", "sha256": digest}

    return change


def with_pending(**values):
    good = {"path": TRAIN, "symbol": "main", "reason": "r", "theirs": "t", "base": ""}
    return with_entry("pending", [{**good, "side": "", "applied": True, **values}])


HOSTILE = {
    "parent": with_file("../x"),
    "inner parent": with_file("a/../../x"),
    "absolute": with_file("/etc/passwd"),
    "git": with_file(".git/hooks/pre-commit"),
    "git, inner": with_file("a/.GIT/config"),
    "lock": with_file(".redco/lock"),
    "manifest": with_file(".redco/manifest.json"),
    "a copy": with_file(".redco/base/redco.toml.base"),
    "empty": with_file(""),
    "line break": with_file("a\nb"),
    "no digest": with_file("x", "abc"),
    "digest of another type": with_file("x", 5),
    "files a list": with_entry("files", []),
    "file a string": with_entry("files", {"x": "y"}),
    "request a list": with_entry("request", ["name"]),
    "request a string": with_entry("request", "name"),
    "no name": with_entry("request", {}),
    "name of another type": with_entry("request", {"name": 5}),
    "name a path": with_entry("request", {"name": "../x"}),
    "ejected a string": with_entry("ejected", "abc"),
    "ejected numbers": with_entry("ejected", [5]),
    "pending a string": with_entry("pending", ["x"]),
    "pending a table": with_entry("pending", {"x": 1}),
    "pending outside": with_pending(path="../x"),
    "pending of redco's": with_pending(path=".redco/x"),
    "pending, text of another type": with_pending(theirs=5),
    "pending, symbol of another type": with_pending(symbol=None),
    "pending, a surrogate": with_pending(theirs="\ud800"),
    "pending, no side": with_pending(side="both"),
    "pending, applied of another type": with_pending(applied="yes"),
    "pending, another key": with_pending(other="x"),
    "schema of another type": with_entry("schema", "1"),
    "generator of another type": with_entry("generator", 5),
    "generator no version": with_entry("generator", "new"),
    "model a string": with_entry("model", "x"),
    "model of other keys": with_entry("model", {"x": 1}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_manifest(project, tmp_path, name):
    (tmp_path / "x").write_text("outside\n")
    project.change(TRAIN, "10", "20")
    content = json.loads(project.read(MANIFEST))
    HOSTILE[name](content)
    project.write(MANIFEST, json.dumps(content))
    before = stamped(tmp_path)
    for command in (["update"], ["update", "--check"], ["eject", SHARDING]):
        code, out, err = project.redco(*command)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    lock = "my-project/.redco/lock"
    assert {k: v for k, v in stamped(tmp_path).items() if k != lock} == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "is damaged: JSONDecodeError: "),
        (b"[]", "is damaged: TypeError: "),
        (b"null", "is damaged: TypeError: "),
        (b"\xff", "cannot be read: "),
        (b"[" * 100_000, "is damaged: RecursionError: "),
        (b'{"generator": "99.0", "schema": 1}', "was written by redco-new 99.0; install that"),
        (b'{"generator": "0.0.1", "schema": 2}', "was written by redco-new 0.0.1; install that"),
        (b"<<<<<<< HEAD\n{}\n", "has the marks of a conflict of git; take either side"),
    ],
)
def test_manifest_that_is_none(project, text, message):
    project.write(MANIFEST, text)
    code, out, err = project.redco("update")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"{MANIFEST}: {message}" in err


def test_what_is_ejected_and_written_is_left_alone(project):
    content = json.loads(project.read(MANIFEST))
    content["ejected"] = [SHARDING]  # as git may merge two branches
    project.write(MANIFEST, json.dumps(content))
    before = project.read(SHARDING)
    assert project.update("--shards", "8")[0] == 0
    assert project.read(SHARDING) == before


def test_copies_that_the_manifest_of_another_branch_has_not(project):
    project.template["launch/new.sh"] = "#!/bin/sh\n"
    manifest = project.read(MANIFEST)
    project.update()
    project.write(MANIFEST, manifest)  # git checkout --ours
    assert project.update()[0] == 0
    assert "launch/new.sh" in read_manifest(project.root).files
    del project.template["launch/new.sh"]
    project.write(MANIFEST, manifest)
    assert project.update()[0] == 0, "and of those that nobody writes any more"
