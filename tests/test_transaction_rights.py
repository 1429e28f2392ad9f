"""Modes and owners: kept, and where they forbid a change, nothing is changed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from transactions import OLD, lay, replacing, tree

from redco_new.transaction import Change, apply


@pytest.fixture
def root(tmp_path):
    return lay(tmp_path / "root", OLD)


def test_modes(root):
    (root / "pkg/train.py").chmod(0o4751)
    before = os.umask(0o027)
    try:
        apply(
            root,
            [
                replacing(root, "pkg/train.py", executable=True),
                replacing(root, "launch/hosts.sh"),
                replacing(root, "tests/gone/only.py", executable=True),
                Change("new/script.sh", b"#!/bin/sh", None, executable=True),
                Change("new/file.py", b"", None),
            ],
        )
    finally:
        os.umask(before)
    wanted = {
        "pkg/train.py": 0o4751,
        "launch/hosts.sh": 0o755,
        "tests/gone/only.py": 0o604,
        "new/script.sh": 0o751,
        "new/file.py": 0o640,
        "new": 0o750,
    }
    assert {path: (root / path).stat().st_mode & 0o7777 for path in wanted} == wanted


AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from redco_new.errors import RedcoError
from redco_new.transaction import apply, recover
import transactions

if os.getuid() == 0:  # whom no mode keeps out
    os.setgid(65534)
    os.setuid(65534)
try:
    apply(Path({root!r}), transactions.changes())
except RedcoError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("path", "mode", "told"),
    [
        ("pkg/train.py", 0o444, "pkg/train.py: is read-only, and nothing was written"),
        ("tests/gone/only.py", 0o444, "tests/gone/only.py: is read-only"),
        ("pkg/train.py", 0o000, "pkg/train.py: cannot be read: Permission denied, and nothing"),
        ("tests/gone", 0o000, "cannot be read: Permission denied, and nothing was written"),
        ("pkg", 0o555, "pkg/train.py: cannot be written: Permission denied, and nothing was"),
        (".", 0o555, "cannot be written: Permission denied, and nothing was changed"),
        (".redco", 0o555, "cannot be written: Permission denied, and nothing was changed"),
        ("données", 0o555, "données/grüße 数据.py: cannot be written: Permission denied"),
    ],
)
def test_file_or_folder_that_may_not_be_written(path, mode, told):
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        root = lay(Path(name) / "root", OLD)
        before, usual = tree(root), (root / path).stat().st_mode
        if os.getuid() == 0:
            for place in (root, *root.rglob("*")):
                os.chown(place, 65534, 65534)
        (root / path).chmod(mode)
        script = AS_NOBODY.format(path=sys.path, root=str(root))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        (root / path).chmod(usual)
        assert (done.returncode, done.stderr) == (0, "")
        assert told in done.stdout and done.stdout.count("\n") == 1
        assert tree(root) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_owner_is_kept(root):
    os.chown(root / "pkg/train.py", 1234, 4321)
    apply(root, [replacing(root, "pkg/train.py")])
    found = (root / "pkg/train.py").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 4321, 0o640)


def test_owner_that_may_not_be_given(root, monkeypatch):
    monkeypatch.setattr(os, "chown", lambda *args: (_ for _ in ()).throw(PermissionError()))
    stat = os.stat

    def of_somebody_else(path, **options):
        found = list(stat(path, **options))
        return os.stat_result([*found[:4], 4321, *found[5:]] if "pkg" in str(path) else found)

    monkeypatch.setattr(os, "stat", of_somebody_else)
    apply(root, [replacing(root, "pkg/train.py")])
    assert (root / "pkg/train.py").read_bytes() == b"new"
