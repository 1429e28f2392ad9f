"""What an update may change, and what it refuses."""

import os

import pytest
import transactions
from disk_faults import Calls, on
from transactions import OLD, lay, replacing, tree

from redco_new.errors import RedcoError
from redco_new.transaction import Change, apply, recover


@pytest.fixture
def root(tmp_path):
    return lay(tmp_path / "root", OLD)


def refuses(root, changes, match):
    before = tree(root)
    with pytest.raises(RedcoError, match=match) as caught:
        apply(root, changes)
    assert tree(root) == before
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "is not a plain path"),
        ("../outside.py", "is not a plain path"),
        ("pkg/../../outside.py", "is not a plain path"),
        ("pkg/../x.py", "is not a plain path"),
        ("./x.py", "is not a plain path"),
        ("pkg//x.py", "is not a plain path"),
        ("pkg/", "is not a plain path"),
        ("", "is not a plain path"),
        (".", "outside the project"),
        ("a\nb.py", "is not a plain path"),
        ("a\0b.py", "is not a plain path"),
        ("caf\udce9.py", "is not a plain path"),
        (".git/hooks/pre-commit", "not a file of the project's own"),
        ("pkg/.GIT/config", "not a file of the project's own"),
        (".git", "not a file of the project's own"),
        (".redco/lock", "not a file of the project's own"),
        (".redco/staging/0.new", "not a file of the project's own"),
        (".Redco/Staging/0.new", "not a file of the project's own"),
        ("to_outside.py", "outside the project"),
        ("dangling.py", "outside the project"),
        ("folder_outside/x.py", "outside the project"),
        ("to_git/config", "not a file of the project's own"),
        ("loop.py", "is a link that leads to itself"),
        ("loop.py/x.py", "cannot be read"),
        ("x" * 300, "cannot be read: File name too long"),
        ("pkg", "is not a file"),
        ("pipe", "is not a file"),
        ("pkg/train.py/x.py", "pkg/train.py: is a file, and a folder is needed"),
    ],
)
def test_place_that_is_not_the_projects(root, path, why):
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file.py").write_text("theirs")
    (root / ".git").mkdir()
    links = {
        "to_outside.py": "../outside/file.py",
        "dangling.py": "../outside/new.py",
        "folder_outside": "../outside",
        "to_git": ".git",
        "loop.py": "loop.py",
    }
    for link, target in links.items():
        (root / link).symlink_to(target)
    os.mkfifo(root / "pipe")
    before = names(root.parent)  # not tree(), which would wait for the pipe
    good = replacing(root, "launch/hosts.sh")
    with pytest.raises(RedcoError, match=why):
        apply(root, [good, Change(path, b"new", None)])
    assert names(root.parent) == before
    assert (root / "launch/hosts.sh").read_text() == "old hosts"


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_link_is_written_through(root):
    (root / "absent.py").symlink_to("pkg/made.py")
    (root / "linked_folder").symlink_to("new/folder")
    changes = [
        replacing(root, "pkg/linked.py"),
        Change("absent.py", b"made", None),
        Change("linked_folder/x.py", b"x", None),
    ]
    apply(root, changes)
    assert os.readlink(root / "pkg/linked.py") == "../real/linked.py"
    assert (root / "real/linked.py").read_bytes() == b"new"
    assert (root / "real/linked.py").stat().st_mode & 0o777 == 0o600
    assert os.readlink(root / "absent.py") == "pkg/made.py"
    assert (root / "pkg/made.py").read_bytes() == b"made"
    assert (root / "new/folder/x.py").read_bytes() == b"x"


def test_link_is_not_deleted_through(root):
    change = replacing(root, "pkg/linked.py", content=None)
    refuses(root, [change], "pkg/linked.py: is a link, and the update would delete .*yourself")


def test_project_that_is_reached_by_a_link(root):
    link = root.with_name("link")
    link.symlink_to(root)
    apply(link, [replacing(root, "pkg/train.py")])
    assert (root / "pkg/train.py").read_bytes() == b"new"


def test_one_file_by_two_names(root):
    changes = [replacing(root, "pkg/linked.py"), replacing(root, "real/linked.py")]
    refuses(root, changes, "real/linked.py: is the same file as pkg/linked.py")


def test_file_and_folder_of_one_name(root):
    changes = [Change("a", b"", None), Change("a/b", b"", None)]
    refuses(root, changes, "a: is a file, and a folder is needed")


@pytest.mark.parametrize("now", ["edited", "deleted", "made", "a folder"])
def test_file_that_is_not_as_expected(root, now):
    changes = transactions.changes()
    path = "launch/more.sh" if now == "made" else "pkg/train.py"
    if now in ("deleted", "a folder"):
        (root / path).unlink()
    if now == "a folder":
        (root / path).mkdir()
    if now in ("edited", "made"):
        (root / path).write_text("mine")
    what = "is not a file" if now == "a folder" else "changed while the update was worked out"
    assert refuses(root, changes, f"{path}: {what}, and nothing was written").where == path


def test_deleted_file_that_is_not_as_expected(root):
    (root / "tests/gone/only.py").write_text("mine")
    refuses(root, transactions.changes(), "tests/gone/only.py: changed while")


def test_nothing_to_do_touches_nothing(root):
    with on(Calls()) as calls:
        apply(root, [replacing(root, "same.py", b"same"), Change("never.py", None, None)])
        assert recover(root) == []
    assert calls.made == []


def test_folder_that_holds_more_than_is_deleted_stays(root):
    (root / "tests/gone/mine.py").write_text("mine")
    (root / "folder_to_file/in/empty").mkdir()
    before = tree(root)
    paths = ("tests/gone/only.py", "folder_to_file/in/a.py")
    apply(root, [replacing(root, path, None) for path in paths])
    assert tree(root) == {path: before[path] for path in before if path not in paths}
    refuses(root, [Change("tests", b"", None)], "tests: is not a file, and nothing was written")


def test_folder_whose_files_all_change_names_is_kept(root):
    (root / "tests/gone").chmod(0o711)
    apply(root, [replacing(root, "tests/gone/only.py", None), Change("tests/gone/x.py", b"", None)])
    assert os.listdir(root / "tests/gone") == ["x.py"]
    assert (root / "tests/gone").stat().st_mode & 0o777 == 0o711


def test_folder_that_is_no_project(tmp_path):
    with pytest.raises(RedcoError, match="is not a redco project: it has no folder .redco"):
        apply(tmp_path, [])
