"""Two processes x two devices hold the batches of one process x four, each row collated once."""

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from redco_runtime.base import together
from redco_runtime.cluster import agreement
from redco_runtime.run import lock
from redco_runtime.data.batches import TrainBatches, eval_batches
from redco_runtime.base.messages import UserError
from redco_runtime.step.remat import UNKNOWN, device_memory

STEPS, BATCH, SIZE = 3, 8, 21
DEVICES = np.arange(4).reshape(2, 2)  # devices 0 and 1 belong to process 0, 2 and 3 to process 1
MESHES = {  # (data, model) -> position of the device, and the rows (of 8) that each process holds
    "data spans both": (DEVICES.reshape(4, 1), [range(4), range(4, 8)]),
    "data outer": (DEVICES, [range(4), range(4, 8)]),
    "model spans both": (DEVICES.T, [range(8), range(8)]),
    "model alone": (DEVICES.reshape(1, 4), [range(8), range(8)]),
    "interleaved": (DEVICES.T.reshape(4, 1), [(0, 1, 4, 5), (2, 3, 6, 7)]),
    "interleaved stream": (DEVICES.T.reshape(4, 1), [(0, 1, 4, 5), (2, 3, 6, 7)]),
}


class Streamed:
    """Examples without a length."""

    def __init__(self, examples):
        self.examples = examples

    def __iter__(self):
        return iter(self.examples)


def batches_of(name: str):
    """(global arrays, ids collated by this process) of each training and each eval batch."""
    order, _ = MESHES[name]
    devices = np.array(sorted(jax.devices(), key=lambda device: device.id))
    sharding = NamedSharding(Mesh(devices[order], ("data", "model")), P("data"))
    calls = []

    def collate(examples):
        calls.append([int(example[0]) for example in examples])
        return {"x": np.stack(examples)}

    examples = [np.full(3, i, np.int32) for i in range(SIZE)]
    source = Streamed(examples) if "stream" in name else examples
    settings = SimpleNamespace(seed=7, batch_size=BATCH, steps=STEPS)
    pipeline = SimpleNamespace(collate=collate, UNIT="rows", count=lambda batch: len(batch["x"]))
    train = TrainBatches(source, pipeline, settings, start=0, sharding=sharding)
    evaluate = eval_batches(examples, collate, batch_size=BATCH, sharding=sharding)
    arrays = [batch["x"] for batch in train]
    assert train.count == STEPS * BATCH
    for batch, valid_B, *_ in evaluate:
        arrays += [batch["x"], valid_B]
    return arrays, calls


def worker(port: str, process: str, folder: str) -> None:
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    for name in MESHES:
        arrays, calls = batches_of(name)
        total = jax.jit(lambda arrays: [array.sum() for array in arrays])(arrays)
        found = {"total": np.array([int(each) for each in total]), "calls": np.array(calls)}
        for i, array in enumerate(arrays):
            found[f"{i}.shape"] = np.array(array.shape)
            for shard in array.addressable_shards:
                start, stop, _ = shard.index[0].indices(array.shape[0])
                found[f"{i}.{shard.device.id}.{start}.{stop}"] = np.asarray(shard.data)
        np.savez(Path(folder) / f"{name}.{process}.npz", **found)

    # None of what follows is a program of the devices, which would be compiled.
    multihost_utils.process_allgather = multihost_utils.broadcast_one_to_all = None
    with jax.set_mesh(jax.make_mesh((4,), ("data",))):
        (Path(folder) / f"memory.{process}").write_text(str(device_memory()))
    (Path(folder) / f"faults.{process}").write_text(
        "\n".join(faults_of(int(process), Path(folder)))
    )


def faults_of(process: int, folder: Path) -> list[str]:
    """What each check of what the processes share says; "" where they agree."""
    agreement.VISIBLE_WITHIN = 1.0
    same = [{"x": np.arange(i), "text": "a"} for i in range(100)]
    if process == 0:
        for name in ("shared", "own0"):
            lock.hold(folder / name, print)
    checks = [
        partial(agreement.check_shared, folder / "shared"),
        partial(agreement.check_shared, folder / f"own{process}"),
        partial(agreement.check_same_examples, same),
        partial(agreement.check_same_examples, same[process:]),
        partial(agreement.check_same_examples, same[process:] + same[:process]),
        partial(agreement.check_same_examples, []),
    ]
    faults = []
    for check in checks:
        try:
            check()
            faults.append("")
        except UserError as fault:
            faults.append(str(fault))
    if process == 0:
        together.patience = lambda: 1
        with pytest.raises(jax.errors.JaxRuntimeError, match="DEADLINE_EXCEEDED"):
            together.decide("what process 1 never says", 0, min)
    return faults


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_processes):
    folder = tmp_path_factory.mktemp("found")
    run_processes(__file__, folder)
    return folder


@pytest.fixture(scope="module")
def found(folder):
    return lambda name, process: np.load(folder / f"{name}.{process}.npz")


def test_two_processes_know_the_memory_of_their_devices(folder):
    """On the mesh of both, as a step is built."""
    assert [(folder / f"memory.{process}").read_text() for process in (0, 1)] == [str(UNKNOWN)] * 2


def test_what_two_processes_do_not_share_is_named_in_both(folder):
    faults = [(folder / f"faults.{process}").read_text().split("\n") for process in (0, 1)]
    shared, own, same, fewer, shifted, none = faults[0]
    assert (shared, own, same, none) == ("", "", "", "") and faults[1][0] == faults[1][2] == ""
    # Process 0 does not wait for that: the other ends with it, and all by their lifeline.
    lost = "own1 is not shared: process 1 of 2 cannot see what process 0 writes there"
    assert faults[1][1].startswith("--workdir: ") and lost in faults[1][1]
    assert "process 1 has other training examples than process 0: the number of examples" in fewer
    assert "than process 0: example 0 differs" in shifted
    assert faults[1][3:] == faults[0][3:]


@pytest.mark.parametrize("name", MESHES)
def test_two_processes_hold_the_batches_of_one(found, name):
    _, held = MESHES[name]
    arrays, calls = batches_of(name)
    reference = [np.asarray(array) for array in arrays]
    for process in range(2):
        saved = found(name, process)
        assert saved["total"].tolist() == [int(array.sum()) for array in reference]
        # The rows of a process, in order, each once a batch.
        rows = list(held[process])
        assert saved["calls"].tolist() == [[call[row] for row in rows] for call in calls]
        for i, array in enumerate(reference):
            assert tuple(saved[f"{i}.shape"]) == array.shape
            shards = [key for key in saved if key.startswith(f"{i}.") and key.count(".") == 3]
            assert len(shards) == 2
            for key in shards:
                start, stop = map(int, key.split(".")[2:])
                assert np.array_equal(saved[key], array[start:stop]), (name, process, key)


if __name__ == "__main__":
    worker(*sys.argv[1:])


def test_what_is_no_array_is_the_same_in_all_processes():
    """Its content is its class: where it lies is another place in each."""
    one, two = object(), object()
    assert agreement._digest({"a": [one]}) == agreement._digest({"a": [two]})
    assert agreement._digest({"a": [one]}) != agreement._digest({"a": [{}]})
