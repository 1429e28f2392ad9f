"""Two processes read a checkpoint onto another split: all of it once, together."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from redco_runtime.checkpoints import tensors
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.layout.specs import shard_bytes
from redco_runtime.checkpoints.tensors import move, to_read

SHAPE = (1024, 1536)  # 6 MB
OTHER_SPLITS = [
    P("model", "data"),
    P(("model", "data")),
    P(None, ("data", "model")),
    P("model"),
    P(),
]


def bytes_read() -> int:
    """Of files and pipes, by this process, since it began."""
    return int(Path("/proc/self/io").read_text().split()[1])


def made(x, sharding):
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def worker(port: str, process: str, folder: str) -> None:
    """Saves an array split over both processes, and reads it as each of OTHER_SPLITS."""
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    split = NamedSharding(mesh, P("data", "model"))
    with Checkpoints(Path(folder), keep=1) as checkpoints:
        checkpoints.save(1, {"x": made(x, split)})
    marks = []
    tensors.move = lambda *of: marks.append(bytes_read()) or move(*of)  # sockets' count too, later
    for spec in OTHER_SPLITS:
        wanted = jax.ShapeDtypeStruct(SHAPE, jnp.float32, sharding=NamedSharding(mesh, spec))
        before = bytes_read()
        found = tensors.read([Path(folder) / "1"], {"x": wanted})["x"]
        taken = multihost_utils.process_allgather(np.int64(marks[-1] - before))
        assert found.sharding == wanted.sharding
        for shard in found.addressable_shards:
            assert np.array_equal(shard.data, x[shard.index])
        assert sum(taken) < 1.3 * x.nbytes, (spec, taken / x.nbytes)
        place = to_read(wanted, (1, 1))  # of a file that gives any slice
        assert sum(shard_bytes(place) for _ in jax.devices()) == x.nbytes
        moved = move(made(x, place.sharding), wanted.sharding)
        for one, other in zip(moved.addressable_shards, found.addressable_shards, strict=True):
            assert np.array_equal(one.data, other.data)


def test_one_process_reads_as_the_tensor_lies():
    """Here two devices each read all of what was written as one."""
    split = NamedSharding(Mesh(np.array(jax.devices()[:2]), ("data",)), P("data"))
    leaf = jax.ShapeDtypeStruct(SHAPE, jnp.float32, sharding=split)
    assert to_read(leaf, SHAPE).sharding == split


def test_each_byte_is_read_by_one_process(tmp_path, run_processes):
    run_processes(__file__, tmp_path)


if __name__ == "__main__":
    worker(*sys.argv[1:])
