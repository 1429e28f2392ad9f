"""Files that their user edits while an update runs, or after it was killed: never lost."""

import itertools
import shutil

import pytest
import transactions
from disk_faults import Calls, Killed, killed_at, on
from transactions import OLD, SMALL, lay, some, tree

from redco_new.errors import RedcoError
from redco_new.transaction import apply, recover, unfinished


@pytest.fixture
def folder():
    with transactions.in_memory() as folder:
        yield folder


@pytest.fixture
def root(folder):
    return lay(folder / "root", OLD)


class Typed(Calls):
    """Someone writes "mine" into `file` just before call `at`."""

    def __init__(self, at, file):
        super().__init__()
        self.typed_at, self.file, self.call = at, file, None

    def meet(self, name, path):
        if len(self.made) == self.typed_at:
            with open(self.file, "w") as file:  # not io.open, which is counted
                file.write("mine")
            self.call = (name, path)
        super().meet(name, path)


def test_file_that_is_edited_at_each_call(folder):
    """Nothing typed is lost, but between the last look at a file and its replacement."""
    lost, refused = [], 0
    for number in itertools.count():
        root = lay(folder / str(number), some(OLD, SMALL))
        file = root / "pkg/train.py"
        with on(Typed(number, file)) as calls:
            try:
                apply(root, transactions.changes(SMALL))
            except RedcoError as error:
                refused += 1
                assert error.where == "pkg/train.py"
                assert (root / ".redco/manifest.json").read_text() == "old manifest"
        if calls.call is None:
            break
        if file.read_text() != "mine":
            lost.append((calls.call[0], calls.call[1].removeprefix(f"{root}/")))
    assert lost == [("replace", "pkg/train.py")]
    assert refused > 20


class TakenBack(Typed):
    """It is taken back before the journal is written."""

    def meet(self, name, path):
        super().meet(name, path)
        if path.endswith("journal.draft"):
            with open(self.file, "w") as file:
                file.write("old train, edited")


def test_edit_that_is_taken_back_leaves_no_wrong_copy(root):
    before = tree(root)
    with on(TakenBack(0, root / "pkg/train.py")) as calls:
        with pytest.raises(RedcoError, match="pkg/train.py: changed while the update was worked"):
            apply(root, transactions.changes())
    assert calls.call and not unfinished(root)
    assert tree(root) == {**before, "pkg/train.py": (0o640, b"mine")}


def test_edit_after_a_kill_is_kept(folder):
    """Whether it was made to the old text or to the new, and all else is as it was."""
    seen = set()
    for number in itertools.count():
        root = lay(folder / str(number), some(OLD, SMALL))
        before = tree(root)
        try:
            with on(killed_at(number)):
                apply(root, transactions.changes(SMALL))
            break
        except Killed:
            if not unfinished(root):
                continue
        file = root / "pkg/train.py"
        seen.add(file.read_text())
        file.write_text("mine")
        assert recover(root) == ["pkg/train.py"]
        assert file.read_text() == "mine"
        assert tree(root) | {"pkg/train.py": before["pkg/train.py"]} == before
    assert seen == {"old train, edited", "new train, edited"}


def killed_after(root, name, place):
    """Apply the update to `root`, killed at the call after the one that changes `place`."""
    rehearsal = lay(root.with_name("rehearsal"), OLD)
    with on(Calls()) as calls:
        apply(rehearsal, transactions.changes())
    made = [(name, path.split("/rehearsal/")[-1]) for name, path in calls.made]
    with pytest.raises(Killed), on(killed_at(made.index((name, place)) + 1)):
        apply(root, transactions.changes())


def test_file_put_into_a_new_folder_is_kept(root):
    before = tree(root)
    killed_after(root, "replace", ".redco/manifest.json")
    (root / "file_to_folder/in/mine.py").write_text("mine")
    assert sorted(recover(root)) == ["file_to_folder", "file_to_folder/in"]
    after = tree(root)
    assert after.pop("file_to_folder/in/mine.py")[1] == b"mine"
    assert {path for path in after | before if after.get(path) != before.get(path)} == {
        "file_to_folder",
        "file_to_folder/in",
    }


def test_folder_deleted_after_a_kill_stays_deleted(root):
    killed_after(root, "replace", "pkg/train.py")
    shutil.rmtree(root / "tests")
    (root / "tests").write_text("mine")
    assert sorted(recover(root)) == ["tests/gone", "tests/gone/only.py"]
    assert (root / "tests").read_text() == "mine"
    assert (root / "pkg/train.py").read_text() == "old train, edited"


def test_unfinished_update_is_not_built_upon(root):
    killed_after(root, "replace", "pkg/train.py")
    with pytest.raises(RedcoError, match="an update of it was interrupted; run `redco update`"):
        apply(root, [])
    assert unfinished(root)
