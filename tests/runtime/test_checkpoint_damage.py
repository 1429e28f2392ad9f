"""A checkpoint that is not as it was written is named, and the one before it used."""

import json
import os

import pytest

from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.errors import UserError
from redco_runtime.base.state import ModelState
from states import abstract, assert_same, flip_byte, largest_file, make_state, save_steps


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "no checksums"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, mesh, capsys, damage):
    save_steps(tmp_path, mesh, 1, 2, 3)
    match damage:
        case "flip":
            flip_byte(tmp_path, 3)
        case "truncate":
            os.truncate(largest_file(tmp_path / "3"), 10)
        case "remove":
            largest_file(tmp_path / "3").unlink()
        case "no checksums":
            (tmp_path / "3" / "checksums.json").unlink()
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(mesh)))
        assert step == 2
        assert_same(state, make_state(mesh, 2))
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"warning: checkpoint 3 is not used: {tmp_path / '3'}")
        # The run comes to step 3 again, and what it saves then counts.
        checkpoints.save(3, make_state(mesh, 4))
        step, state = checkpoints.restore(abstract(make_state(mesh)))
    assert step == 3
    assert_same(state, make_state(mesh, 4))
    assert capsys.readouterr().err == ""


def test_params_come_from_an_intact_checkpoint_too(tmp_path, mesh, capsys):
    save_steps(tmp_path, mesh, 1, 2)
    flip_byte(tmp_path, 2)
    expected = make_state(mesh, 1).params
    step, model = Checkpoints(tmp_path, keep=3).restore_model(ModelState(abstract(expected), {}))
    assert step == 1 and "checkpoint 2 is not used" in capsys.readouterr().err
    assert_same(model.params, expected)


def test_a_run_does_not_start_again_over_damaged_checkpoints(tmp_path, mesh, capsys):
    save_steps(tmp_path, mesh, 1, 2)
    flip_byte(tmp_path, 1)
    flip_byte(tmp_path, 2)
    with pytest.raises(UserError, match="no checkpoint in .* is intact"):
        Checkpoints(tmp_path, keep=3).restore(abstract(make_state(mesh)))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_every_file_that_a_restore_needs_is_verified(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    sums = json.loads((tmp_path / "1" / "checksums.json").read_text())
    files = {str(path.relative_to(tmp_path / "1")) for path in (tmp_path / "1").rglob("*")}
    files -= {name for name in files if (tmp_path / "1" / name).is_dir()}
    unverified = {"checksums.json", "_CHECKPOINT_METADATA", "commit_success.txt"}
    assert files == sums.keys() | unverified
    for name in unverified - {"checksums.json"}:
        (tmp_path / "1" / name).write_text("?")
    _, state = Checkpoints(tmp_path, keep=3).restore(abstract(make_state(mesh)))
    assert_same(state, make_state(mesh, 1))
    save_steps(tmp_path, mesh, 2)
    assert Checkpoints(tmp_path, keep=3).latest() == 2
