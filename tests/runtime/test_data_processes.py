"""Two processes x two devices hold the batches of one process x four, each row collated once."""

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from redco_runtime.data import TrainBatches, eval_batches

STEPS, BATCH, SIZE = 3, 8, 21
DEVICES = np.arange(4).reshape(2, 2)  # devices 0 and 1 belong to process 0, 2 and 3 to process 1
MESHES = {  # (data, model) -> position of the device, and the rows (of 8) that each process holds
    "data spans both": (DEVICES.reshape(4, 1), [range(4), range(4, 8)]),
    "data outer": (DEVICES, [range(4), range(4, 8)]),
    "model spans both": (DEVICES.T, [range(8), range(8)]),
    "model alone": (DEVICES.reshape(1, 4), [range(8), range(8)]),
    "interleaved": (DEVICES.T.reshape(4, 1), [(0, 1, 4, 5), (2, 3, 6, 7)]),
}


def batches_of(order: np.ndarray):
    """(global arrays, ids collated by this process) of each training and each eval batch."""
    devices = np.array(sorted(jax.devices(), key=lambda device: device.id))
    sharding = NamedSharding(Mesh(devices[order], ("data", "model")), P("data"))
    calls = []

    def collate(examples):
        calls.append([int(example[0]) for example in examples])
        return {"x": np.stack(examples)}

    examples = [np.full(3, i, np.int32) for i in range(SIZE)]
    settings = SimpleNamespace(seed=7, batch_size=BATCH, steps=STEPS)
    pipeline = SimpleNamespace(collate=collate, UNIT="rows", count=lambda batch: len(batch["x"]))
    train = TrainBatches(examples, pipeline, settings, start=0, sharding=sharding)
    evaluate = eval_batches(examples, collate, batch_size=BATCH, sharding=sharding)
    arrays = [batch["x"] for batch in train]
    assert train.count == STEPS * BATCH
    for batch, valid_B, _ in evaluate:
        arrays += [batch["x"], valid_B]
    return arrays, calls


def worker(port: str, process: str, folder: str) -> None:
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    for name, (order, _) in MESHES.items():
        arrays, calls = batches_of(order)
        total = jax.jit(lambda arrays: [array.sum() for array in arrays])(arrays)
        found = {"total": np.array([int(each) for each in total]), "calls": np.array(calls)}
        for i, array in enumerate(arrays):
            found[f"{i}.shape"] = np.array(array.shape)
            for shard in array.addressable_shards:
                start, stop, _ = shard.index[0].indices(array.shape[0])
                found[f"{i}.{shard.device.id}.{start}.{stop}"] = np.asarray(shard.data)
        np.savez(Path(folder) / f"{name}.{process}.npz", **found)


@pytest.fixture(scope="module")
def found(tmp_path_factory, run_processes):
    folder = tmp_path_factory.mktemp("found")
    run_processes(__file__, folder)
    return lambda name, process: np.load(folder / f"{name}.{process}.npz")


@pytest.mark.parametrize("name", MESHES)
def test_two_processes_hold_the_batches_of_one(found, name):
    order, held = MESHES[name]
    arrays, calls = batches_of(order)
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
