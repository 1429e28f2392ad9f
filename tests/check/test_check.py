"""A project is checked, edited, and checked again: by `redco check`, as a user does."""

import json

import pytest
from redco_new.check.table import ACCEPTABLE, CHECKS, WRONG
from redco_new.cli import redco_app, run
from redco_new.project.create import create_project
from redco_new.request import Request

NET = """from flax import linen as nn


class Net(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(self.width)(x)))
"""
CONFIG = '[model]\nwidth = 16\n[inputs]\nx = {shape = ["B", 12]}\n'
WEIGHED = "    return losses_B, jnp.ones_like(losses_B)\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    (folder / "net.py").write_text(NET)
    (folder / "net.toml").write_text(CONFIG)
    request = Request.from_flags(
        "own",
        f"{folder}/net.py:Net",
        config=f"{folder}/net.toml",
        recipe="classify",
        shards="2",
        folder=folder / "own",
    )
    create_project(request, folder)
    return folder / "own"


def check(project, capsys, *flags):
    code = run(redco_app, "redco", ["check", str(project), "--json", *flags])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow  # three checks, which train
def test_an_edit_is_reported_accepted_and_no_longer_reported(project, capsys):
    code, said = check(project, capsys)
    assert (code, said["verdict"], said["recorded"]) == (0, "ok", True), said
    assert {*CHECKS} - {*said["ok"]} == {"gathers", "reach"}  # it has no sequence
    pipeline = project / "own" / "pipeline.py"
    text = pipeline.read_text()
    assert text.count(WEIGHED) == 1
    pipeline.write_text(text.replace(WEIGHED, WEIGHED.replace("losses_B,", "losses_B / 2,", 1)))
    code, said = check(project, capsys, "--accept", "order")
    assert (code, said["verdict"]) == (1, "changed")
    assert {one["check"] for one in said["findings"]} == {"loss"}
    (one,) = said["findings"]
    assert one["where"] == "own/pipeline.py::loss"
    assert "loss of step 1" in one["what"] and "--accept loss" in one["todo"]
    code, said = check(project, capsys, "--accept", "loss")
    assert (code, said["accepted"]) == (0, ["loss"])


@pytest.mark.parametrize("name", ["resume", "everything", ""])
def test_what_cannot_be_accepted(project, capsys, name):
    assert run(redco_app, "redco", ["check", str(project), "--accept", name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"redco: --accept: {name} is ") and "loss" in error


def test_every_check_says_what_to_do():
    for check in CHECKS.values():
        assert check.measures and check.todo
        assert (f"--accept {check.name}" in check.todo) == (check.name in ACCEPTABLE)
    assert {check.name for check in CHECKS.values() if check.kind == WRONG} > {"resume", "masks"}
