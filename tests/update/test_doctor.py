"""`redco doctor`: what is there, and what would fail, with how to mend it."""

import json

import pytest
from updates import HOSTS, MODEL

from redco_new import cli, doctor
from redco_new.project.records import BASE
from redco_new.transaction import MANIFEST

PYPROJECT = '[project]\ndependencies = ["jax>=0.10"]\n'


@pytest.fixture
def examine(project, monkeypatch):
    """(exit code, the lines that say what is to be mended) of `redco doctor` in a project."""
    monkeypatch.setattr(doctor, "DEVICES", "print('cpu, 1')")
    (project.root / "pyproject.toml").write_text(PYPROJECT)

    def examine():
        code, out, err = project.redco("doctor")
        assert err == ""
        return code, [line for line in out.splitlines() if line.startswith("! ")], out

    return examine


def test_nothing_is_wrong(examine, project):
    project.edit(MODEL, "WIDTH = 8", "WIDTH = 16")
    code, wrong, out = examine()
    assert (code, wrong) == (0, []) and out.endswith("Nothing is wrong.\n")
    assert "  devices: cpu, 1\n" in out and "redco's, 1 of them edited\n" in out


def test_what_a_project_needs_and_has_not_is_named(examine, project):
    text = '"jax>=99", "no-such-package>=1", "what is this"'
    (project.root / "pyproject.toml").write_text(PYPROJECT.replace('"jax>=0.10"', text))
    code, wrong, _ = examine()
    assert code == 1 and len(wrong) == 3
    assert wrong[0].startswith("! jax: ") and wrong[0].endswith("; pip install 'jax>=99'")
    assert wrong[1] == "! no-such-package: is not installed; pip install 'no-such-package>=1'"
    assert "! what is this: is no requirement" in wrong[2]


def test_what_is_gone_or_damaged_is_named(examine, project):
    (project.root / HOSTS).unlink()
    code, wrong, _ = examine()
    assert code == 1 and len(wrong) == 1
    assert f"files: missing: {HOSTS}; `redco update`" in wrong[0]
    for path, content in ((BASE, b"x"), (MANIFEST, b"{")):
        (project.root / path).write_bytes(content)
        (line,) = examine()[1]
        assert path in line and "damaged" in line


def test_open_conflicts_are_named(examine, project):
    project.edit(MODEL, "x * WIDTH", "x * 2")
    project.change(MODEL, "x * WIDTH", "x * 3")
    assert project.redco("update")[0] == 1
    assert f"! conflicts: open: {MODEL}::up; `redco resolve" in "\n".join(examine()[1])


def test_devices_that_hang_or_fail(examine, monkeypatch):
    monkeypatch.setattr(doctor, "DEVICES_WITHIN", 0.5)
    monkeypatch.setattr(doctor, "DEVICES", "import time; time.sleep(9)")
    assert "devices: JAX has not found any in" in examine()[1][0]
    monkeypatch.setattr(doctor, "DEVICES_WITHIN", 60)
    monkeypatch.setattr(doctor, "DEVICES", "raise SystemError('no such device')")
    assert "devices: JAX fails: SystemError: no such device; mend" in examine()[1][0]


def test_for_programs_and_where_there_is_no_project(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "DEVICES", "print('cpu, 1')")
    monkeypatch.chdir(tmp_path)
    assert cli.run(cli.redco_app, "redco", ["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {"redco-new", "packages", "devices"} <= {one["what"] for one in findings}
    assert cli.run(cli.redco_app, "redco", ["doctor", "nowhere"]) == 2


def test_a_checkpoint_or_tokenizer_that_is_gone_is_named(examine, project):
    place = 'str((Path(__file__).parents[1] / "../ck").resolve())'
    text = f"class Data:\n    tokenizer: str = {place}\n\nCHECKPOINT = {place}\n"
    (project.root / "my_project/config.py").write_text(text)
    wrong = examine()[1]
    assert [line.partition(";")[0] for line in wrong] == [
        f"! my_project/config.py::{name}: ../ck: there is no such folder"
        for name in ("CHECKPOINT", "tokenizer")
    ]
    (project.root.parent / "ck").mkdir()
    assert examine()[:2] == (0, [])
