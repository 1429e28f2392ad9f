"""The merge, where git runs it."""

import os
import subprocess
import sys

import pytest

from redco_merge.driver import merge_files

BASE = "import os\n\n\ndef rate(step):\n    return 0.1\n\n\nRATES = dict(low=1)\n"
OURS = BASE.replace("(low=1)", "(low=1, middle=2)")
THEIRS = BASE.replace("(low=1)", "(low=1, high=3)")
CLASH = BASE.replace("(low=1)", "(low=9)")


@pytest.fixture
def git(tmp_path):
    """A function: git in a repository with BASE in a.py, and the driver for it."""
    driver = f"{sys.executable} -c 'from redco_new.cli import redco_main; redco_main()' merge-driver %O %A %B %P"
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", f"merge.redco.driver={driver}"]

    def run(*args, ok=True):
        done = subprocess.run(
            ["git", *who, *args], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert not ok or done.returncode == 0, done.stderr
        return done

    run("init", "-q", "-b", "main")
    (tmp_path / ".gitattributes").write_text("*.py merge=redco\n")
    (tmp_path / "a.py").write_text(BASE)
    run("add", ".")
    run("commit", "-qm", "base")
    return run


def commit(git, folder, branch, text):
    git("checkout", "-q", "-b", branch, "main")
    (folder / "a.py").write_text(text)
    git("commit", "-qam", branch)


def test_what_git_refuses_is_merged_where_the_order_cannot_matter(git, tmp_path):
    commit(git, tmp_path, "theirs", THEIRS)
    commit(git, tmp_path, "ours", OURS)
    git("merge", "-q", "theirs", "-m", "both")
    assert "RATES = dict(low=1, middle=2, high=3)" in (tmp_path / "a.py").read_text()


def test_a_conflict_has_gits_markers_and_the_reason(git, tmp_path):
    commit(git, tmp_path, "theirs", CLASH)
    commit(git, tmp_path, "ours", BASE.replace("(low=1)", "(low=8)"))
    done = git("merge", "-q", "theirs", "-m", "both", ok=False)
    assert done.returncode == 1 and "a.py: RATES: " in done.stderr + done.stdout
    text = (tmp_path / "a.py").read_text()
    assert "<<<<<<< ours\nRATES = dict(low=8)\n" in text and "low=9)\n>>>>>>> theirs\n" in text
    assert git("ls-files", "--unmerged").stdout


def test_what_git_cannot_do_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("[")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    files = [tmp_path / name for name in ("base", "ours", "theirs")]
    for number, file in enumerate(files):
        file.write_text(BASE.replace("low=1", f"low={number}"))
    with pytest.raises(OSError, match="bad config"):
        merge_files(*files, "a.py", print)
    assert "low=1" in files[1].read_text()
