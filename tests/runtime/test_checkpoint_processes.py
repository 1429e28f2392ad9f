"""Checkpoints of processes of their own: killed, quiet, and two at once."""

import signal
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from safetensors.numpy import load_file

from redco_runtime.checkpoints import checkpoint, checksums
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.base.messages import UserError
from redco_runtime.checkpoints.export import export
from redco_runtime.base.tensors import Tensor
from states import abstract, assert_same, flip_byte, make_state, save_steps

KILLED = """
import os, signal, sys, pathlib, jax, jax.numpy as jnp
from redco_runtime.checkpoints import checkpoint
from redco_runtime.checkpoints import checkpoint, checksums
checkpoints = checkpoint.Checkpoints(pathlib.Path(sys.argv[1]), keep=2)
checkpoints.save(1, {"x": jnp.arange(8.0)})
checkpoints.wait()
checksums._digests = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
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
from redco_runtime.checkpoints.checkpoint import Checkpoints
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
    read, digests = [], checksums._digests
    checksums._digests = lambda folder, names: read.extend(names) or digests(folder, names)
    save_steps(directory, mesh, 1, 2)
    assert not [name for name in read if "ocdbt" in name]  # no tensor is read back
    both = NamedSharding(mesh, PartitionSpec(("data", "model")))
    big = Path(folder) / "big"
    with Checkpoints(big) as checkpoints:
        for step in (1, 2):
            x = jax.jit(partial(jnp.arange, step, step + 2.0**20), out_shardings=both)()
            checkpoints.save(step, {"x": x})
    if process == "0":
        flip_byte(directory, 2)
        flip_byte(big, "2/default/ocdbt.process_1")
    multihost_utils.sync_global_devices("damaged")
    # The other process learns of what this one alone has read.
    step, state = Checkpoints(big).restore(
        {"x": jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=both)}
    )
    assert step == 1
    for shard in state["x"].addressable_shards:
        assert shard.data[0] == 1 + shard.index[0].start
    with Checkpoints(directory, keep=3) as checkpoints:
        step, state = checkpoints.restore(abstract(make_state(other)))
        assert step == 1
        checkpoints.save(2, state)
        checkpoints.wait()
        if process == "1":  # a network file system may show it later to some
            checkpoint.whole_checkpoints = lambda directory: [1]
        step, _ = checkpoints.restore(abstract(make_state(other)))
        assert step == 1
    exported = Path(folder) / "exported"
    table = {path: Tensor(path.replace("/", ".")) for path in ("layers/q/kernel", "scale")}
    export(state.params, exported, {}, table=table)
    assert (exported / "model.safetensors").exists()
    with pytest.raises(UserError, match="exported is there already"):  # in both
        export(state.params, exported, {}, table=table)


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
