"""How a compiled step becomes a Reading: axes, links, refusals, configurations, meshes."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from pytest import approx

from redco_fit.compiled.hlo import Collective
from redco_new.errors import RedcoError
from redco_fit.hardware import HARDWARE
from redco_fit.target import parse_target
from redco_fit.links import HOP, REACHED, WAYS, link_seconds
from redco_fit.read import SLOP, TEMPORARIES, USED, axes_between, recomputation_limit
from redco_fit.reading import Job
from redco_fit.step import abstract_batch, configure, lay_mesh

MESH = {"data": 2, "fsdp": 1, "model": 4}


@pytest.mark.parametrize(
    ("group", "axis"),
    [((0, 1, 2, 3), "model"), ((0, 4), "data"), ((), "data+model"), ((0, 5), "data+model")],
)
def test_a_collective_is_over_the_axes_along_which_its_devices_differ(group, axis):
    assert axes_between(Collective("all-reduce", 8, group=group), MESH) == axis


def test_a_collective_within_a_host_goes_by_its_link_and_one_between_hosts_by_the_network():
    target, hosts = parse_target("h100:2x4"), [0] * 4 + [1] * 4
    ring, latency = WAYS[0], 3 * WAYS[0].near + WAYS[0].base
    within = Collective("all-gather", 10**9, group=(0, 1, 2, 3))
    assert link_seconds(within, target, hosts) == approx(0.75e9 / (450e9 * REACHED) + latency)
    # Four groups of one device in each host share its 400 GB/s.
    between = Collective("all-gather", 10**9, group=(0, 4))
    wire = 4 * 0.5e9 / (400e9 * REACHED)
    assert link_seconds(between, target, hosts) == approx(wire + ring.base + ring.far)
    everybody = Collective("all-gather", 10**9)
    wire = 0.875e9 / (400e9 * REACHED)
    assert link_seconds(everybody, target, hosts) == approx(
        wire + ring.base + 6 * ring.near + ring.far
    )


def test_a_ring_takes_as_long_as_it_has_hops_and_a_tree_their_logarithm():
    def seconds(kind, count, size=1):
        target = parse_target(f"h100:{count}")
        return link_seconds(Collective(kind, size), target, [n // 8 for n in range(count)])

    assert 7 < seconds("all-gather", 4096) / seconds("all-gather", 512) < 9
    assert seconds("all-reduce", 4096) < 1.5 * seconds("all-reduce", 512)
    assert seconds("all-gather", 4096, 10**12) == approx(10**12 / (400e9 * REACHED), rel=0.02)


def test_an_axis_of_a_tpu_goes_round_all_of_its_sides_and_a_line_one_way():
    v6e, seen = parse_target("v6e:256"), [0] * 256
    pod = link_seconds(Collective("all-gather", 10**9), v6e, seen)
    side = link_seconds(Collective("all-gather", 10**9, group=tuple(range(16))), v6e, seen)
    assert 1.8 < side / pod < 2
    assert link_seconds(Collective("all-gather", 1), v6e, seen) == approx(16 * HOP, rel=1e-3)
    line = link_seconds(Collective("all-gather", 1), parse_target("v6e:4x4"), [0] * 16)
    assert line == approx(6 * HOP, rel=1e-3)


def test_the_sizes_of_a_refusal_are_read_in_both_ways_that_libtpu_says_them():
    assert USED.search("Used 78.50G of 30.75G hbm. Exceeded")[1] == "78.50"
    text = "required for HLO temporaries (881.71G) exceeds available HBM (15.75G)."
    assert TEMPORARIES.search(text).groups() == ("881.71", "G", "15.75", "G")


@dataclass(frozen=True)
class Data:
    tokenizer: str = "big"
    sequence_length: int = 2048
    target_length: int = 512


@dataclass(frozen=True)
class Model:
    max_positions: int = 4096
    remat: str = "fit"


@dataclass(frozen=True)
class Train:
    batch_size: int = 64
    micro_batches: int = 1


@dataclass(frozen=True)
class Config:
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    train: Train = field(default_factory=Train)


PRESETS = {"full": Config(), "tiny": Config(data=Data("bytes", 128, 32))}


def test_a_job_changes_the_preset_full_and_reads_the_data_of_tiny():
    config = configure(PRESETS, Job(batch=8, length=1024, settings={"remat": "some"}))
    assert config.data == Data("bytes", 1024, 256)
    assert (config.train.batch_size, config.model.remat) == (8, "some")
    assert configure(PRESETS, Job()).data == Data("bytes", 2048, 512)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (Job(length=8192), "8192 tokens are more than the model's max_positions, 4096"),
        (Job(settings={"remats": 1}), "config.py has no remats"),
    ],
)
def test_a_job_that_the_configuration_cannot_take_is_named(job, says):
    with pytest.raises(RedcoError, match=says):
        configure(PRESETS, job)


def test_a_mesh_must_make_up_the_devices():
    devices, axes = np.array(jax.devices()[:1] * 6), {"data": -1, "fsdp": 1, "model": 1}
    for wanted, says in (
        ({"fsdp": 4}, "data=1,fsdp=4,model=1 does not make up the 6 devices"),
        ({"expert": 2}, "the project has no axis expert"),
    ):
        with pytest.raises(RedcoError, match=says):
            lay_mesh(axes, devices, wanted, HARDWARE["h100"])


def test_an_axis_in_parts_is_asked_for_as_one():
    devices, axes = np.array(jax.devices()[:1] * 6), {"data": -1, "model_1": 2, "model_2": 3}
    for wanted, says in (
        ({"model": 6, "data": 4}, "data=4,model_1=2,model_2=3 does not make up the 6 devices"),
        ({"model": 3}, "no axis model, which its sharding.py has as model_1 and model_2"),
    ):
        with pytest.raises(RedcoError, match=says):
            lay_mesh(axes, devices, wanted, HARDWARE["h100"])


def test_a_batch_is_one_example_for_all_rows_and_must_divide():
    place = jax.sharding.NamedSharding(jax.make_mesh((1,), ("x",)), jax.sharding.PartitionSpec("x"))
    steps = SimpleNamespace(batch=place)
    pipeline = SimpleNamespace(
        examples=lambda config: ([{"x": np.zeros(3)}], []),
        collate=lambda some: {"x": np.stack([one["x"] for one in some])},
    )
    assert abstract_batch(pipeline, Config(), steps)["x"].shape == (64, 3)
    odd = Config(train=Train(batch_size=9, micro_batches=2))
    with pytest.raises(RedcoError, match="9 examples do not divide"):
        abstract_batch(pipeline, odd, steps)


@pytest.mark.parametrize(
    ("hardware", "options", "limit"),
    [
        ("h100", {}, True),
        ("h100", {"xla_disable_hlo_passes": "rematerialization"}, False),
        ("v5e", {}, False),
    ],
)
def test_xla_computes_arrays_again_on_gpus_where_a_project_lets_it(hardware, options, limit):
    step, machine = SimpleNamespace(built=SimpleNamespace(options=options)), HARDWARE[hardware]
    found = recomputation_limit(step, machine, 10**9)
    assert found == (int(SLOP * (machine.usable - 10**9)) if limit else None)
