"""On which mesh fewer hosts go on: the rule, and what a compilation says of a step."""

import os
from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from linear import MESH, Config, Train, examples, make_steps

from redco_runtime.cluster.fewer import Needs, choose_layout
from redco_runtime.cluster.rendezvous import NEEDS
from redco_runtime.loop.out_of_memory import DeviceMemory
from redco_runtime.run.record import Run

WHOLE = Needs(
    mesh={"data": 4, "fsdp": 1, "model": 1},
    batch_axes=["data", "fsdp"],
    batch_size=16,
    micro_batches=1,
    alone=True,
    state={"": 2, "fsdp": 40, "data fsdp": 10},
    params={"fsdp": 20},
    rows=100,
    has=0,
)


@pytest.mark.parametrize(
    ("count", "here", "changes", "hosts", "mesh", "micro"),
    [
        # 4 -> 2, the third waits: 16 rows do not divide by 3, 12 do.
        (4, 3, {}, 2, "2,1,1", 1),
        (4, 3, {"batch_size": 12}, 3, "3,1,1", 1),
        (4, 1, {}, 1, "1,1,1", 1),
        # `data` gives devices up first, then `fsdp`; `model` and `expert` none.
        (4, 2, {"mesh": {"data": 2, "fsdp": 4, "model": 2}}, 2, "1,4,2", 1),
        (4, 1, {"mesh": {"data": 2, "fsdp": 4, "model": 2}}, 1, "1,2,2", 1),
        (4, 3, {"mesh": {"data": 1, "fsdp": 2, "model": 8}}, 2, "1,1,8", 1),
        (4, 1, {"mesh": {"data": 1, "fsdp": 2, "model": 8}}, None, "", 0),
        (2, 1, {"mesh": {"data": 1, "fsdp": 1, "expert": 2, "model": 1}}, None, "", 0),
        # With 2 hosts: a state of 62, 20 of gradients or twice that, and 200 of rows, or half.
        (4, 2, {"has": 282}, 2, "2,1,1", 1),
        (4, 2, {"has": 281}, 2, "2,1,1", 2),
        (4, 2, {"has": 281, "alone": False}, None, "", 0),
        (4, 2, {"has": 80}, None, "", 0),
        (4, 2, {"has": 281, "micro_batches": 2}, 2, "2,1,1", 4),
        (4, 3, {"mesh": {"data": 1, "fsdp": 4, "model": 1}, "has": 250, "batch_size": 12}, 2, "1,2,1", 3),
    ],
)  # fmt: skip
def test_the_rule(count, here, changes, hosts, mesh, micro):
    needs = replace(WHOLE, **changes)
    layout = choose_layout(needs, here, count)
    if hosts is None:
        assert layout is None
        return
    axes = ",".join(f"{a}={n}" for a, n in zip(needs.mesh, mesh.split(","), strict=True))
    assert layout and layout.hosts == hosts
    assert layout.flags == ["--mesh", axes, "--micro-batches", str(micro)]


def test_all_hosts_need_no_measure_and_fewer_one():
    layout = choose_layout(None, 4, 4)
    assert layout and (layout.hosts, layout.flags) == (4, [])
    assert choose_layout(None, 3, 4) is None


def test_a_compilation_writes_what_a_step_needs(tmp_path, monkeypatch):
    path = tmp_path / "needs.json"
    monkeypatch.setitem(os.environ, NEEDS, str(path))
    run = Run(tmp_path, Config(train=Train(batch_size=24)), MESH, None)
    with make_steps() as steps, DeviceMemory(steps, run) as memory:
        rows = jnp.stack([row["x"] for row in examples(24)])
        state = steps.init(jax.random.key(0))
        memory.compile(state, {"x": jax.device_put(rows, steps.batch)})
        on_device = sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(state))
    needs = Needs.load(path)
    assert needs and needs.mesh == dict(steps.batch.mesh.shape) and needs.batch_size == 24
    assert sum(needs.state.values()) == on_device and needs.rows > 0
    assert needs.size(needs.mesh, 1) == on_device + sum(needs.params.values()) + needs.rows
