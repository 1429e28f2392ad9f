"""What redco remembers, gone or wrong: nothing of the user's is lost, and nothing bad is followed."""

import json

import pytest
from updates import SHARDING, TRAIN, stamped, to_older_layout

from redco_new.project.records import BRING_BACK, COPIES, SUFFIX

MANIFEST = ".redco/manifest.json"


@pytest.mark.parametrize("copy", [None, b"", b"something else\n"])
def test_copy_of_an_older_redco(project, copy):
    to_older_layout(project.root)
    path = f"{COPIES}{TRAIN}{SUFFIX}"
    (project.root / path).unlink()
    if copy is not None:
        project.write(path, copy)
    refused(project, f"{path}: is missing, or is not what redco wrote; {BRING_BACK}")


def refused(project, message):
    """One line, exit code 2, and nothing is written, whatever the command."""
    before = stamped(project.root)
    looks = (["update", "--check"], ["update", "--restore", TRAIN], ["diff"])
    for command in (["update"], *looks, ["eject", SHARDING]):
        code, out, err = project.redco(*command)
        assert (code, out, err.count("\n")) == (2, "", 1) and err.endswith(f"{message}\n"), err
        assert stamped(project.root) == before


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
        (b'{"generator": "0.0.1", "schema": 3}', "was written by redco-new 0.0.1; install that"),
        (b"<<<<<<< HEAD\n{}\n", "has the marks of a conflict of git; take .redco/ of one side"),
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
