"""A checkpoint that is not as it was written is named, and the one before it used."""

import json
from hashlib import sha256

import jax
import jax.numpy as jnp
import pytest

from redco_runtime.checkpoints import tensors
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.base.state import ModelState
from states import abstract, assert_same, flip_byte, largest_file, make_state, save_steps


def arrays(step):
    """Of 2 MB, whose parts lie in files beside that of their places, and one that lies in this."""
    big = jax.random.normal(jax.random.key(step), (2**18,))
    return {"params/big": big, "params/other": big + 1, "params/small": jnp.arange(8.0) + step}


def one_changed(content):
    content[len(content) // 2] ^= 1


def zeros(content):
    middle = len(content) // 2
    content[middle : middle + 64] = bytes(len(content[middle : middle + 64]))


def truncated(content):
    del content[10:]


@pytest.mark.parametrize("change", [one_changed, zeros, truncated, None])
def test_whatever_file_is_damaged_it_is_named_and_no_wrong_tensor_read(tmp_path, capfd, change):
    """Some are not read by a restore: then the state is right."""
    with Checkpoints(tmp_path) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, arrays(step))
    named = []
    for file in [path for path in (tmp_path / "2").rglob("*") if path.is_file()]:
        before = file.read_bytes()
        content = bytearray(before)
        if change:
            change(content)
            file.write_bytes(content)
        else:
            file.unlink()
        step, state = Checkpoints(tmp_path).restore(abstract(arrays(0)))
        file.write_bytes(before)
        assert_same(state, arrays(step))
        said = capfd.readouterr().err
        if step == 1:
            place, _, rest = said.partition(" is missing or has changed")
            assert place.startswith("warning: checkpoint 2 is not used: ") and rest == "\n"
            assert place.endswith(f": {file}") or file.name == "checksums.json"  # it is of others
            named.append(file)
        else:
            assert said == ""
    of_tensors = [file for file in named if file.parent.name == "d" and file.stat().st_size > 2**16]
    assert of_tensors and {"_METADATA", "checksums.json"} <= {file.name for file in named}


def test_a_run_goes_on_from_the_one_before_and_saves_over_the_damage(tmp_path, mesh, capsys):
    save_steps(tmp_path, mesh, 1, 2, 3)
    flip_byte(tmp_path, 3)
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(mesh)))
        assert step == 2
        assert_same(state, make_state(mesh, 2))
        # The run comes to step 3 again, and what it saves then counts.
        checkpoints.save(3, make_state(mesh, 4))
        step, state = checkpoints.restore(abstract(make_state(mesh)))
    assert step == 3
    assert_same(state, make_state(mesh, 4))
    assert len(capsys.readouterr().err.splitlines()) == 1


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


def test_a_checkpoint_of_an_earlier_version_is_verified_by_its_checksums(tmp_path, capsys):
    for step in (1, 2):
        folder = tmp_path / str(step)
        with tensors.orbax().PyTreeCheckpointer() as writer:  # zarr2, without checksums of its own
            writer.save(folder / "default", arrays(step))
        files = [path for path in folder.rglob("*") if path.is_file()]
        sums = {str(x.relative_to(folder)): sha256(x.read_bytes()).hexdigest() for x in files}
        (folder / "checksums.json").write_text(json.dumps(sums))
    for step in (2, 1):
        now, state = Checkpoints(tmp_path).restore(abstract(arrays(0)))
        assert now == step
        assert_same(state, arrays(step))
        flip_byte(tmp_path, 2)
    file = largest_file(tmp_path / "2")
    said = f"warning: checkpoint 2 is not used: {file} is missing or has changed\n"
    assert capsys.readouterr().err == said
