"""What is not in a file's text: modes, links, encodings, line endings."""

import os

import pytest
from updates import HOSTS, README, TOML, TRAIN, stamped


def test_executable_bits_are_kept(project):
    (project.root / TRAIN).chmod(0o700)
    (project.root / HOSTS).chmod(0o640)
    project.change(TRAIN, "10", "20")
    project.change(HOSTS, "echo two", "echo 2")
    project.update()
    modes = [(project.root / path).stat().st_mode & 0o777 for path in (TRAIN, HOSTS)]
    assert modes == [0o700, 0o640]


def test_links_are_written_through(project):
    os.rename(project.root / TRAIN, project.root / "real.py")
    (project.root / TRAIN).symlink_to("../real.py")
    project.change(TRAIN, "10", "20")
    assert project.update()[0] == 0
    assert os.readlink(project.root / TRAIN) == "../real.py"
    assert project.read("real.py") == project.template[TRAIN]


def test_link_out_of_the_project_is_refused(project, tmp_path):
    os.rename(project.root / TRAIN, tmp_path / "real.py")
    (project.root / TRAIN).symlink_to("../../real.py")
    project.change(TRAIN, "10", "20")
    project.change(HOSTS, "echo two", "echo 2")
    before = stamped(project.root)
    code, _, err = project.redco("update")
    assert (code, err.count("\n"), stamped(project.root)) == (2, 1, before)
    assert "outside the project" in err
    assert "10" in (tmp_path / "real.py").read_text()


def test_folder_in_the_place_of_a_file(project):
    (project.root / TRAIN).unlink()
    (project.root / TRAIN).mkdir()
    code, _, err = project.redco("update")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("redco: my_project/train.py: cannot be read: Is a directory")


@pytest.mark.parametrize(
    "kind", ["crlf", "bom", "latin-1", "undecodable", "no newline", "nul", "does not parse"]
)
def test_bytes_of_the_user(project, kind):
    text = project.read(TRAIN) + "\n\ndef mine():\n    return 'grüß mine'\n"
    content = {
        "crlf": text.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + text.encode(),
        "latin-1": ("# coding: latin-1\n" + text).encode("latin-1"),
        "undecodable": text.encode() + b"# \xff\xfe mine\n",
        "no newline": text.rstrip().encode(),
        "nul": text.encode() + b"# mine \0\n",
        "does not parse": text.encode() + b"def mine(:\n",
    }[kind]
    project.write(TRAIN, content)
    project.change(TRAIN, "10", "20")
    code = project.update()[0]
    whole = kind in ("undecodable", "nul", "does not parse")
    expected = content if whole else content.replace(b"10", b"20")
    assert ((project.root / TRAIN).read_bytes(), code) == (expected, int(whole))


def test_crlf_of_redco_toml_and_readme(project):
    for path in (TOML, README):
        project.write(path, project.read(path).replace("\n", "\r\n"))
    project.change(README, "Run it.", "Run it twice.")
    assert project.update("--shards", "8")[0] == 0
    assert "Run it twice.\r\n" in project.read(README)
    assert "\r\nmodel = 8\r\n" in project.read(TOML)
