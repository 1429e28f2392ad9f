"""--license: LICENSE, by whom and since when, and what pyproject.toml says of it."""

import subprocess
import tomllib
from datetime import date

import pytest
from bad_input import complaint
from generated import make, run, texts

from redco_new.request import Request, license
from redco_new.request.license import LICENSES, copyright_of, license_notes

YEAR = date.today().year


def printed(**flags):
    return texts(Request.from_flags("a", "gpt2", **flags))[0]


@pytest.fixture
def git(monkeypatch):
    """What git says of its user."""
    said = {"name": "Ada Lovelace"}

    def run(command, **_):
        assert command == ["git", "config", "user.name"]
        if said["name"] is None:
            raise FileNotFoundError("git")
        return subprocess.CompletedProcess(command, 0, f"{said['name']}\n")

    monkeypatch.setattr(license.subprocess, "run", run)
    return said


@pytest.mark.parametrize("name", LICENSES)
def test_a_project_has_the_licence_that_is_asked_for(git, name):
    files = printed(license=name.lower())
    assert f"{YEAR} Ada Lovelace" in files["LICENSE"] and "{" not in files["LICENSE"]
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert (project["license"], project["license-files"]) == (name, ["LICENSE"])
    assert Request.from_toml(files["redco.toml"]).license == name


@pytest.mark.parametrize("flags", [{}, {"license": "none"}])
def test_no_licence_is_no_file(flags):
    files = printed(**flags)
    assert "LICENSE" not in files
    assert "icense" not in files["pyproject.toml"] + files["redco.toml"]


@pytest.mark.parametrize("name", ["", 'a "b"', "a\nb", None])
def test_where_git_has_no_name_a_line_says_who_stands_there(git, name):
    git["name"] = name
    assert copyright_of("words") == f"{YEAR} the authors of words"
    (note,) = license_notes("words", copyright_of("words"))
    assert "the authors of words" in note and "`copyright` in redco.toml" in note


def test_a_name_is_no_note(git):
    assert license_notes("words", copyright_of("words")) == license_notes("words", "") == []


def test_an_unknown_licence_is_refused():
    error = complaint("redco-new my-project --model gpt2 --license gpl-3.0")
    assert "--license: unknown licence 'gpl-3.0'; choose apache-2.0, mit" in error


def test_a_licence_that_nobody_holds_is_refused():
    text = Request.from_flags("a", "gpt2").to_toml()
    with pytest.raises(Exception, match="redco.toml: license: .* nobody .*add copyright = "):
        Request.from_toml(f'license = "MIT"\n{text}')


def test_an_update_brings_changes_and_takes_it_and_keeps_the_year(tmp_path):
    project = make(tmp_path, license="mit")
    toml = project / "redco.toml"
    copyright = Request.from_toml(toml.read_text()).copyright
    toml.write_text(toml.read_text().replace(copyright, "1999 Grace Hopper"))
    assert run("redco update --license apache-2.0", project)[0] == 0
    text = (project / "LICENSE").read_text()
    assert "Apache License" in text and "Copyright 1999 Grace Hopper" in text
    assert run("redco update --license none", project)[0] == 0
    assert not (project / "LICENSE").exists() and "icense" not in toml.read_text()
