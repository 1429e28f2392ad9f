"""One process of N: what a start, a save and two restores cost it, as JSON on its stdout.

python worker.py INDEX COUNT PORT FOLDER MEGABYTES
"""

import json
import os
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from redco_runtime.base.progress import PROGRESS
from redco_runtime.checkpoints.checkpoint import Checkpoints
from redco_runtime.cluster.agreement import check_same_examples, check_shared
from redco_runtime.run.lock import hold

LEAVES = 4
COLLECTIVES = ("process_allgather", "broadcast_one_to_all", "sync_global_devices")


class Client:
    """JAX's client of the coordinator, whose calls are counted."""

    def __init__(self, client, calls):
        self._client, self._calls = client, calls

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def call(*args, **named):
            self._calls["coordinator"] += 1
            return method(*args, **named)

        return call


class Meter:
    """What this process took since the phase before."""

    def __init__(self):
        self.calls, self.phases = Counter(), {}
        self._before = self._now()

    def _now(self):
        io = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return {
            "read MB": int(io["rchar"]) / 1e6,
            "written MB": int(io["wchar"]) / 1e6,
            "CPU s": time.process_time(),
            "calls": self.calls["coordinator"],
            "device collectives": self.calls["devices"],
        }

    def __call__(self, phase):
        now = self._now()
        self.phases[phase] = {name: now[name] - self._before[name] for name in now}
        self.phases[phase]["RSS MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self._before = self._now()


def count_calls(meter):
    """Count the calls of the coordinator, and the collectives by which hosts agree through their devices."""
    if distributed.global_state.client:
        jax.devices()  # which take the client itself
        distributed.global_state.client = Client(distributed.global_state.client, meter.calls)

    def counted(function):
        def call(*args, **named):
            meter.calls["devices"] += 1
            return function(*args, **named)

        return call

    for name in COLLECTIVES:
        setattr(multihost_utils, name, counted(getattr(multihost_utils, name)))


def main(index, count, port, folder, megabytes):
    index, count, folder = int(index), int(count), Path(folder)
    meter = Meter()
    jax.config.update("jax_num_cpu_devices", 1)
    if count > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", count, index)
    with PROGRESS.deadlines(0.0):
        count_calls(meter)
        if index == 0:
            hold(folder, print)
        check_shared(folder)
        check_same_examples([{"x": np.arange(i)} for i in range(100)])
        meter("start")
        mesh = Mesh(np.array(jax.devices()), ("fsdp",))
        split, other = (NamedSharding(mesh, PartitionSpec(*s)) for s in (("fsdp",), (None, "fsdp")))
        side = 8 * round((int(megabytes) * 2**20 / 4 / LEAVES) ** 0.5 / 8)
        make = jax.jit(
            lambda i: jax.random.normal(jax.random.key(i), (side, side)), out_shardings=split
        )
        state = {f"params/{i}": make(i) for i in range(LEAVES)}
        jax.block_until_ready(state)
        meter("its state")
        with Checkpoints(folder / "checkpoints") as checkpoints:
            checkpoints.save(1, state)
            checkpoints.wait()
            meter("save")
            for name, sharding in (("restore", split), ("restore, other split", other)):
                wanted = {
                    k: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
                    for k, x in state.items()
                }
                jax.block_until_ready(checkpoints.restore(wanted))
                meter(name)
        equal = jax.jit(lambda a, b: jnp.array([jnp.all(a[k] == b[k]) for k in a]).all())
        assert equal(state, checkpoints.restore(wanted)[1])
    meter.phases["all"] = {"CPU s": time.process_time()}
    print(json.dumps({"bytes": LEAVES * side * side * 4 / 1e6, **meter.phases}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
