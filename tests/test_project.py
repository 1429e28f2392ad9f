"""Creating a project: all of it or nothing, and never over what exists."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import samples

from redco_new.generate import files
from redco_new.project import create
from redco_new.render import assets
from redco_new.errors import RedcoError
from redco_new.project.archive import unpack
from redco_new.project.records import BASE
from redco_new.transaction import MANIFEST
from redco_new.project.create import create_project, write_project


@pytest.fixture
def template(tmp_path, monkeypatch):
    samples.install_design(monkeypatch)
    return samples.write_template(tmp_path / "template")


@pytest.fixture
def parent(tmp_path):
    folder = tmp_path / "parent"
    folder.mkdir()
    return folder


def test_create(parent, template):
    steps = []
    target = create_project(samples.REQUEST, parent, template, steps.append)
    assert target == parent / "my-project"
    assert os.listdir(parent) == ["my-project"]
    assert steps == ["reading the model gpt-j", "rendering", f"writing {target}"]
    written = {path: data for path, data in samples.tree(target).items() if data is not None}
    assert sorted(written) == sorted([*samples.PATHS, MANIFEST, BASE])
    assert unpack(written[BASE]) == {path: written[path] for path in samples.PATHS}
    for path, entry in json.loads(written[MANIFEST])["files"].items():
        assert entry["sha256"] == hashlib.sha256(written[path]).hexdigest()


def test_modes_follow_the_umask(parent, template):
    before = os.umask(0o027)
    try:
        target = create_project(samples.REQUEST, parent, template)
    finally:
        os.umask(before)
    modes = {path: (target / path).stat().st_mode & 0o777 for path in ("", *samples.PATHS)}
    assert modes.pop("") == 0o750
    assert modes.pop("launch/hosts.sh") == 0o751
    assert set(modes.values()) == {0o640}


def test_default_template_is_redcos_own(parent, monkeypatch):
    sources = []
    samples.install_design(monkeypatch)

    def stop(template, *others):
        sources.append(template.source)
        return {}

    monkeypatch.setattr(files, "print_files", stop)
    create_project(samples.REQUEST, parent)
    assert sources == [assets.templates()]


def assert_refused(parent, template, match):
    before = samples.tree(parent)
    with pytest.raises(RedcoError, match=match):
        create_project(samples.REQUEST, parent, template)
    assert samples.tree(parent) == before


def test_project_that_exists(parent, template):
    target = create_project(samples.REQUEST, parent, template)
    (target / "my_project" / "train.py").write_text("mine\n")
    assert_refused(
        parent, template, "already a redco project, and nothing in it was changed; `redco update`"
    )


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "broken link"])
def test_target_that_is_taken(parent, template, kind):
    target = parent / "my-project"
    if kind == "file":
        target.write_text("mine")
    elif kind == "broken link":
        target.symlink_to("nowhere")
    else:
        target.mkdir()
        if kind == "folder":
            (target / "notes.txt").write_text("mine")
    assert_refused(parent, template, "my-project: exists and is not a redco project")


def test_parent_that_is_missing(parent, template):
    assert_refused(parent / "no" / "folder", template, "the parent folder does not exist")


def test_parent_that_is_a_file(parent, template):
    (parent / "file").write_text("mine")
    assert_refused(parent / "file", template, "the parent folder is not a folder")


def test_parent_that_says_it_is_read_only(parent, template, monkeypatch):
    # Not by its mode bits: they do not hold for root.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != parent)
    assert_refused(parent, template, "the parent folder is read-only; choose another folder")


def test_parent_that_turns_out_to_be_read_only(parent, template, monkeypatch):
    def read_only(self, *args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(create.Path, "mkdir", read_only)
    with pytest.raises(RedcoError, match="my-project: cannot be written: Read-only file system"):
        write_project(parent / "my-project", {"a": ""})
    assert not os.listdir(parent)


FAILURES = {
    "disk full": (OSError(errno.ENOSPC, "No space left on device"), RedcoError),
    "interrupted": (KeyboardInterrupt(), KeyboardInterrupt),
    "bug": (RuntimeError("bug"), RuntimeError),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(("name", "call"), [("fsync", 1), ("fsync", 7), ("open", 2), ("rename", 1)])
def test_failure_while_writing_leaves_nothing(parent, monkeypatch, name, call, failure):
    real, calls = getattr(os, name), []
    raised, expected = FAILURES[failure]

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise raised
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(expected) as caught:
        write_project(parent / "my-project", {f"folder{i}/file": "" for i in range(5)})
    assert not os.listdir(parent)
    if failure == "disk full":
        what = "cannot be written: No space left on device, and nothing was left"
        assert what in str(caught.value)


def test_failure_while_rendering_leaves_nothing(parent, template):
    (template / "project" / "README.md.jinja").write_text("{{ no_such_fact }}")
    assert_refused(parent, template, "'no_such_fact' is undefined")


def test_target_that_appears_meanwhile_is_kept(parent, template):
    def appear(step):
        if step.startswith("writing"):
            (parent / "my-project").mkdir()
            (parent / "my-project" / "theirs").write_text("theirs")

    with pytest.raises(RedcoError, match="cannot be written: Directory not empty"):
        create_project(samples.REQUEST, parent, template, appear)
    assert samples.tree(parent) == {"my-project": None, "my-project/theirs": b"theirs"}


SLOW = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
sys.path[:0] = {path!r}
import pytest, samples
from redco_new import cli

def slow(handle):
    print("writing", flush=True)
    time.sleep(60)

os.fsync = slow
samples.install_design(pytest.MonkeyPatch())
cli.new_main()
"""


@pytest.mark.parametrize(
    ("number", "code", "left"),
    [(signal.SIGTERM, 143, 0), (signal.SIGINT, 130, 0), (signal.SIGKILL, -9, 1)],
)
def test_killed_while_writing(parent, template, number, code, left):
    arguments = ["my-project", "--model", "gpt-j", f"--output={parent}", f"--template={template}"]
    command = [sys.executable, "-c", SLOW.format(path=sys.path), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(number)
        errors = process.communicate(timeout=30)[1]
    assert process.returncode == code
    assert "Traceback" not in errors
    names = os.listdir(parent)
    assert len(names) == left, "only a kill that cannot be caught leaves the staging folder"
    assert "my-project" not in names
