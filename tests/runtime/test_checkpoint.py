import functools
import json
import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from safetensors.numpy import load_file

from redco_runtime import checkpoint
from redco_runtime.checkpoint import CheckpointMismatch, Checkpoints
from redco_runtime.errors import UserError
from redco_runtime.export import export
from redco_runtime.state import TrainState

OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))


@functools.cache
def init_on(mesh):
    split, whole = NamedSharding(mesh, P("data", "model")), NamedSharding(mesh, P())

    def init(step):
        kernel = 100 * step + jnp.arange(64.0).reshape(8, 8)
        params = {"layers": {"q": {"kernel": kernel}}, "scale": jnp.ones(8, jnp.bfloat16)}
        return TrainState(step, params, OPTIMIZER.init(params))

    shape = jax.eval_shape(init, jnp.int32(0))
    shardings = jax.tree.map(lambda leaf: split if leaf.ndim == 2 else whole, shape)
    return jax.jit(init, out_shardings=shardings)


def make_state(mesh, step=1):
    """A state on `mesh`, whose kernel is 100 * step + 0, 1, 2..."""
    return init_on(mesh)(np.int32(step))


def abstract(state):
    def describe(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)

    return jax.tree.map(describe, state)


def assert_same(found, expected):
    def check(a, b):
        assert a.dtype == b.dtype and a.sharding == b.sharding
        assert np.array_equal(np.asarray(a), np.asarray(b))

    jax.tree.map(check, found, expected)


def save_steps(directory, mesh, *steps, keep=3):
    with Checkpoints(directory, keep=keep) as checkpoints:
        for step in steps:
            checkpoints.save(step, make_state(mesh, step))


def largest_file(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def flip_byte(directory, step):
    """Damages the largest file of a checkpoint, without a change of its size."""
    file = largest_file(directory / str(step))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def test_a_state_comes_back_as_it_was(tmp_path, mesh):
    save_steps(tmp_path, mesh, 7)
    with Checkpoints(tmp_path, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(mesh)))
    assert step == 7
    assert jax.tree.structure(state) == jax.tree.structure(make_state(mesh))
    assert_same(state, make_state(mesh, 7))


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (1, 1)])
def test_a_state_comes_back_on_another_mesh(tmp_path, mesh, shape):
    save_steps(tmp_path, mesh, 7)
    count = shape[0] * shape[1]
    other = Mesh(np.array(jax.devices()[:count]).reshape(shape), ("data", "model"))
    _, state = Checkpoints(tmp_path, keep=3).restore(abstract(make_state(other)))
    assert_same(state, make_state(other, 7))


def test_nothing_to_restore(tmp_path, mesh):
    checkpoints = Checkpoints(tmp_path / "none", keep=3)
    assert checkpoints.latest() is None
    assert checkpoints.restore(abstract(make_state(mesh))) is None
    with pytest.raises(UserError, match="no checkpoint in .*none: train first"):
        checkpoints.restore_params(abstract(make_state(mesh).params))
    assert not (tmp_path / "none").exists()


def test_only_the_newest_are_kept(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1, 2, 3, 10, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "3"]
    assert Checkpoints(tmp_path, keep=2).latest() == 10


def test_saving_the_same_step_again_does_nothing(tmp_path, mesh):
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        checkpoints.save(4, make_state(mesh, 4))
        checkpoints.save(4, make_state(mesh, 5))
        step, state = checkpoints.restore(abstract(make_state(mesh)))
        checkpoints.save(4, make_state(mesh, 5))
    assert step == 4
    assert_same(state, make_state(mesh, 4))


def test_an_older_step_is_refused(tmp_path, mesh):
    save_steps(tmp_path, mesh, 4)
    with pytest.raises(UserError, match="step 4 is there, which is later than step 3"):
        save_steps(tmp_path, mesh, 3)


def test_the_state_may_be_donated_at_once(tmp_path, mesh):
    sharding = NamedSharding(mesh, P("data", "model"))
    state = {"x": jax.device_put(jnp.zeros((2048, 2048)), sharding)}
    add = jax.jit(lambda state: jax.tree.map(lambda x: x + 1, state), donate_argnums=0)
    shape = abstract(state)
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        for step in range(1, 4):
            state = add(state)
            checkpoints.save(step, state)
            for _ in range(3):
                state = add(state)
        _, saved = checkpoints.restore(shape)
    assert np.unique(np.asarray(saved["x"])).tolist() == [9.0]


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
    step, params = Checkpoints(tmp_path, keep=3).restore_params(abstract(expected))
    assert step == 1 and "checkpoint 2 is not used" in capsys.readouterr().err
    assert_same(params, expected)


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


def test_tensors_that_do_not_fit_are_listed(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    params = abstract(make_state(mesh).params)
    q = params["layers"]["q"]
    q["kernel"] = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=q["kernel"].sharding)
    q["bias"] = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=params["scale"].sharding)
    del params["scale"]
    with pytest.raises(CheckpointMismatch) as error:
        Checkpoints(tmp_path, keep=3).restore_params(params)
    assert str(error.value).splitlines() == [
        f"checkpoint {tmp_path / '1'} does not fit:",
        "  params/layers/q/bias: absent there, float32[8] in the model",
        "  params/layers/q/kernel: float32[8, 8] there, float32[8, 16] in the model",
        "  params/scale: bfloat16[8] there, absent in the model",
        "Go back to the model that wrote it, or choose another --workdir.",
    ]


def test_another_optimizer_does_not_fit(tmp_path, mesh):
    save_steps(tmp_path, mesh, 1)
    state = abstract(make_state(mesh))
    state = TrainState(state.step, state.params, optax.sgd(0.1).init(state.params))
    with pytest.raises(CheckpointMismatch, match=r"opt_state/1/0/mu/scale: .* absent in the model"):
        Checkpoints(tmp_path, keep=3).restore(state)


def test_a_failed_save_is_told_and_leaves_the_others(tmp_path, mesh, monkeypatch, capfd):
    def full(*_):
        raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(tmp_path, keep=3)
    checkpoints.save(1, make_state(mesh, 1))
    checkpoints.wait()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_digests", full)
        checkpoints.save(2, make_state(mesh, 2))
        with pytest.raises(UserError, match=r"cannot write .*No space left on device"):
            checkpoints.wait()
    assert checkpoints.latest() == 1
    checkpoints.save(3, make_state(mesh, 3))
    checkpoints.close()
    assert checkpoints.latest() == 3
    assert capfd.readouterr() == ("", "")


def test_a_directory_that_cannot_be_written_is_told(tmp_path, mesh):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write a checkpoint to .*file/checkpoints"):
        save_steps(tmp_path / "file" / "checkpoints", mesh, 1)


KILLED = """
import os, signal, sys, pathlib, jax, jax.numpy as jnp
from redco_runtime import checkpoint
checkpoints = checkpoint.Checkpoints(pathlib.Path(sys.argv[1]), keep=2)
checkpoints.save(1, {"x": jnp.arange(8.0)})
checkpoints.wait()
checkpoint._digests = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
checkpoints.save(2, {"x": jnp.arange(8.0)})
checkpoints.wait()
"""


def test_a_kill_leaves_nothing_half_written(tmp_path, run_python):
    run = run_python(KILLED, tmp_path)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert len(list(tmp_path.iterdir())) == 2
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shape = {"x": jax.ShapeDtypeStruct((8,), jnp.float32, sharding=sharding)}
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.latest() == 1
        step, state = checkpoints.restore(shape)
        assert step == 1 and state["x"].tolist() == list(range(8))
        # Reading leaves alone what may be the work of a run that is still going; saving tidies up.
        assert len(list(tmp_path.iterdir())) == 2
        checkpoints.save(3, state)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]


QUIET = """
import pathlib, sys, jax, jax.numpy as jnp
from redco_runtime.checkpoint import Checkpoints
print(any("orbax" in name for name in sys.modules))
x = jnp.arange(8.0)
with Checkpoints(pathlib.Path(sys.argv[1]), keep=1) as checkpoints:
    checkpoints.save(1, {"x": x})
    checkpoints.save(2, {"x": x})
    print(checkpoints.restore({"x": jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)}))
"""


def test_orbax_is_loaded_late_and_silent(tmp_path, run_python):
    run = run_python(QUIET, tmp_path)
    assert run.stderr == ""
    assert (
        run.stdout == "False\n(2, {'x': Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)})\n"
    )


def worker(port: str, process: str, folder: str) -> None:
    """Saves on a mesh of two processes, damages the newest, restores on another mesh, exports."""
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    directory, devices = Path(folder) / "checkpoints", np.array(jax.devices())
    mesh, other = (Mesh(devices.reshape(s), ("data", "model")) for s in [(2, 2), (1, 4)])
    save_steps(directory, mesh, 1, 2)
    if process == "0":
        flip_byte(directory, 2)
    multihost_utils.sync_global_devices("damaged")
    with Checkpoints(directory, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(other)))
        assert step == 1
        checkpoints.save(2, state)
        checkpoints.wait()
        if process == "1":  # a network file system may show it later to some
            checkpoints._steps = lambda: [1]
        step, _ = checkpoints.restore(abstract(make_state(other)))
        assert step == 1
    export(state.params, Path(folder) / "exported", {})
    assert (Path(folder) / "exported" / "model.safetensors").exists()


def test_two_processes_save_what_one_restores(tmp_path, mesh, run_processes):
    run_processes(__file__, tmp_path)
    expected = make_state(mesh, 1)
    step, state = Checkpoints(tmp_path / "checkpoints", keep=3).restore(abstract(expected))
    assert step == 2
    assert_same(state, expected)
    exported = load_file(tmp_path / "exported" / "model.safetensors")
    assert exported.keys() == {"layers.q.kernel", "scale"}
    kernel = np.asarray(expected.params["layers"]["q"]["kernel"])
    assert np.array_equal(exported["layers.q.kernel"], kernel)


if __name__ == "__main__":
    worker(*sys.argv[1:])
