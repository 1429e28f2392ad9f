"""The mirror of a project: what changed is new, the rest is the project's own, and none of it is harmed."""

import errno
import os
import subprocess
from pathlib import Path
from unittest import mock

import pytest

from redco_new.errors import RedcoError
from redco_new.project.sandbox import mirror_project

FILES = {
    "redco.toml": "name",
    "data/big.bin": "big",
    "launch/hosts.sh": "#!/bin/sh\necho old\n",
    "launch/slurm.sbatch": "#!/bin/sh\n",
    "net/__init__.py": "",
    "net/model.py": "old",
    "net/parts/layer.py": "layer",
    "net/parts/deep/one.py": "one",
    "net/__pycache__/model.pyc": "old",
    "tests/test_one.py": "test",
}


@pytest.fixture
def root(tmp_path):
    """A project, two folders below tmp_path/outer, which have something beside it."""
    folder = tmp_path / "outer" / "inner" / "my-project"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "launch/hosts.sh").chmod(0o755)
    (folder.parent / "nets.py").write_text("beside")
    (folder.parent.parent / "nets.py").write_text("above")
    return folder


def contents(folder):
    """path -> (mode, content, or the target of a link) of all that lies in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            content = os.readlink(path)
        else:
            content = path.read_bytes() if path.is_file() else None
        found[path.relative_to(folder).as_posix()] = (path.lstat().st_mode, content)
    return found


def test_what_changed_is_new_and_the_rest_is_linked(root):
    (root / "tool").write_text("old")
    (root / "tool").chmod(0o755)
    before = contents(root)
    changed = {
        "net/model.py": b"new",
        "net/parts/deep/two.py": b"two",
        "fresh/folder/file.py": b"fresh",
        "launch/hosts.sh": b"#!/bin/sh\necho new\n",
        "tool": b"new",
        "launch/new.sh": b"#!/bin/sh\necho new\n",
        "tests/test_one.py": None,
        "tests/test_never_was.py": None,
    }
    with mirror_project(root, changed) as mirror:
        assert mirror.name == "my-project" and not mirror.is_relative_to(root)
        for path, content in changed.items():
            file = mirror / path
            assert not file.is_symlink()
            assert (file.read_bytes() if file.exists() else None) == content
        for path in set(FILES) - set(changed) - {"net/__pycache__/model.pyc"}:
            assert (mirror / path).read_text() == FILES[path]
            assert (mirror / path).samefile(root / path)
        assert (mirror / "data").is_symlink() and not (mirror / "net/parts").is_symlink()
        assert (mirror / "net/parts/layer.py").is_symlink()
        assert not (mirror / "net/__pycache__").exists()
        assert os.listdir(mirror / "tests") == []
        for script in ("launch/hosts.sh", "launch/new.sh"):
            assert subprocess.check_output([mirror / script], text=True) == "new\n"
        assert os.access(mirror / "tool", os.X_OK)
        assert not os.access(mirror / "net/model.py", os.X_OK)
    assert not mirror.parent.exists()
    assert contents(root) == before


def test_links_of_the_project(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/model.py").write_text("linked")
    (tmp_path / "elsewhere/other.py").write_text("other")
    (root / "net/model.py").unlink()
    (root / "net/model.py").symlink_to("../../../../elsewhere/model.py")
    (root / "package").symlink_to(tmp_path / "elsewhere")
    (root / "corpus").symlink_to("../nets.py")
    (root / "broken").symlink_to("nowhere")
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    changed = {"net/model.py": b"new", "package/model.py": b"new too"}
    before = contents(tmp_path)
    with mirror_project(alias, changed, levels_up=1) as mirror:
        assert (mirror / "../nets.py").read_text() == "beside"
        for path, content in changed.items():
            assert not (mirror / path).is_symlink()
            assert (mirror / path).read_bytes() == content
        assert (mirror / "package/other.py").read_text() == "other"
        assert (mirror / "corpus").read_text() == "beside"
        assert (mirror / "net/parts").is_symlink()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("climb", "paths"),
    [
        (1, {"../nets.py": "beside"}),
        (2, {"../nets.py": "beside", "../../nets.py": "above", "../../inner/nets.py": "beside"}),
    ],
)
def test_paths_that_climb(root, climb, paths):
    with mirror_project(root, {"net/model.py": b"new"}, climb) as mirror:
        assert mirror.parts[-1 - climb :] == root.parts[-1 - climb :]
        for path, text in paths.items():
            assert (mirror / path).read_text() == text
            assert (mirror / path).samefile(root / path)
        assert (mirror / "../my-project/net/model.py").read_text() == "new"


def test_a_climb_ends_at_the_root_of_the_disk(root):
    with mirror_project(root, {}, levels_up=99) as mirror:
        assert mirror.parts[-len(root.parts) + 1 :] == root.parts[1:]
        assert (mirror / "redco.toml").read_text() == "name"


def test_a_file_that_became_a_folder(root):
    (root / "net/parts.py").write_text("a file")
    with mirror_project(root, {"net/parts.py": None, "net/parts.py/new.py": b"new"}) as mirror:
        assert (mirror / "net/parts.py/new.py").read_text() == "new"


def test_an_error_inside_goes_on_and_leaves_nothing(root):
    before = contents(root)
    with pytest.raises(OSError, match="of the body"):
        with mirror_project(root, {"net/model.py": b"new"}) as mirror:
            (mirror / "made").mkdir()
            (mirror / "made/file").write_text("by a trial")
            raise OSError("of the body")
    assert not mirror.parent.exists()
    assert contents(root) == before


def test_a_disk_that_is_full(root, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    for name in ("os.symlink", "pathlib.Path.write_bytes", "pathlib.Path.mkdir"):
        full = OSError(errno.ENOSPC, "No space left on device", "the real one", None, "the link")
        with mock.patch(name, side_effect=full), pytest.raises(RedcoError) as error:
            with mirror_project(root, {"net/model.py": b"new"}):
                pass
        assert error.value.where == "the link"
        assert "No space left on device" in error.value.what
        assert error.value.todo == "mend that, or set TMPDIR"
        assert list(scratch.iterdir()) == []


def test_no_place_for_it(root, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(RedcoError, match=f"{tmp_path}/absent/.*: No such file or directory; "):
        with mirror_project(root, {}):
            pass


def test_a_link_that_cannot_be_deleted(root, tmp_path, monkeypatch):
    """The mirror stays, and what the link leads to keeps its mode: no tool makes it deletable."""
    (root / "data").chmod(0o555)
    before, real = contents(root), os.unlink

    def unlink(path, **options):
        if Path(path).name == "data":
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        real(path, **options)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        with mirror_project(root, {}) as mirror:
            patch.setattr("os.unlink", unlink)
    assert (mirror / "data").is_symlink()
    assert contents(root) == before
