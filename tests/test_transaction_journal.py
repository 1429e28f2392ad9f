"""Journals of any content: followed within the project, or refused."""

import json
import shutil

import pytest
from transactions import OLD, lay, tree

from redco_new.errors import RedcoError
from redco_new.transaction import Change, apply, recover, sha256


@pytest.fixture
def root(tmp_path):
    return lay(tmp_path / "root", OLD)


def forged(root, content):
    """`root` with a journal of this content, and a copy that it may name."""
    staging = root / ".redco/staging"
    staging.mkdir()
    (staging / "0.old").write_text("forged")
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    (staging / "journal.json").write_bytes(content)


def one_step(place="pkg/train.py", old=None, new=None):
    return {"schema": 1, "steps": [{"place": place, "old": old, "new": new}]}


FORGED = sha256(b"forged")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"9" * 10_000,
        None,
        [],
        {},
        {"schema": 2, "steps": []},
        {"schema": 1},
        {"schema": 1, "steps": 1},
        {"schema": 1, "steps": {"place": "a"}},
        {"schema": 1, "steps": ["place"]},
        {"schema": 1, "steps": [{"place": "pkg/x.py", "old": FORGED}]},
        {"schema": 1, "steps": [{"place": "pkg/x.py", "old": None, "new": None, "more": 1}]},
        one_step(5),
        one_step(None),
        one_step(["pkg/x.py"]),
        one_step(new="0.new"),
        one_step(new="other"),
        one_step(new="folders"),
        one_step(new=FORGED + "0"),
        one_step(new=FORGED.upper()),
        one_step(new=[FORGED]),
        one_step(new=True),
        one_step("../outside.py", FORGED),
        one_step("/tmp/outside.py", FORGED),
        one_step("to_outside/x.py", FORGED),
        one_step(".git/hooks/post-commit", FORGED),
        one_step(".redco/lock", FORGED),
        one_step("pkg/x.py\n", FORGED),
    ],
)
def test_forged_journal(root, content):
    (root / "to_outside").symlink_to(root.parent)
    forged(root, content)
    before = tree(root.parent)
    with pytest.raises(RedcoError, match="journal.json: is no journal of redco's") as caught:
        recover(root)
    assert tree(root.parent) == before
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("copy", ["missing", "another file", "a link", "a folder"])
def test_copy_that_is_not_what_the_journal_says(root, copy):
    staged, target = root / ".redco/staging/0.old", root / "pkg/gone.py"
    forged(root, one_step("pkg/gone.py", FORGED, None))
    staged.unlink()
    if copy == "another file":
        staged.write_text("else")
    if copy == "a link":
        (root / "same.py").write_text("forged")
        staged.symlink_to(root / "same.py")
    if copy == "a folder":
        staged.mkdir()
    before = tree(root)
    with pytest.raises(RedcoError, match="its copy of pkg/gone.py is missing or damaged"):
        recover(root)
    assert tree(root) == before and not target.exists()


def test_journal_that_is_no_file(root):
    (root / ".redco/staging/journal.json").mkdir(parents=True)
    with pytest.raises(RedcoError, match="cannot be undone: Is a directory; mend that"):
        recover(root)


@pytest.mark.parametrize("place", [".redco", ".redco/staging"])
def test_redcos_own_folder_that_is_a_link(root, place):
    outside = root.with_name("outside")
    outside.mkdir()
    (outside / "file").write_text("theirs")
    if (root / place).exists():
        shutil.rmtree(root / place)
    (root / place).symlink_to(outside)
    before = tree(root.parent)
    for refused in (lambda: apply(root, [Change("x", b"", None)]), lambda: recover(root)):
        with pytest.raises(RedcoError):
            refused()
    assert tree(root.parent) == before
