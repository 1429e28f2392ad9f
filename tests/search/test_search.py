"""The search for the fastest mesh that fits: its parts, and that what it says is consistent."""

import math
from dataclasses import replace

import pytest
from bad_input import complaint
from fit.readings import FITS
from redco_fit.reading import SCRATCH
from redco_fit.search import compile_best as compiling
from redco_fit.search.best import Search, _around, _in_8_bits, _with_attention, search
from redco_fit.search.reasons import COMPUTING
from redco_fit.search.choice import with_trial
from redco_fit.search.candidates import Planner, Trial, price
from redco_fit.search.estimate import estimate_step
from redco_fit.search.sending import first_group
from redco_fit.search.meshes import meshes_of, on_sides, rare_meshes
from redco_fit.search.model import Planned
from redco_fit.target import parse_target
from redco_new.errors import RedcoError
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_new.request.mesh import AXES, RARE

POD = parse_target("h100:2x8")


def test_the_devices_of_a_group_differ_along_its_axes_alone():
    mesh = {"data": 2, "fsdp": 2, "model": 4}
    assert first_group(mesh, ["model"]) == (0, 1, 2, 3)
    assert first_group(mesh, ["data"]) == (0, 8)
    assert first_group(mesh, ["data", "fsdp"]) == (0, 4, 8, 12)


def test_meshes_have_all_devices_and_keep_layers_in_a_host():
    meshes = list(meshes_of(POD, experts=2))
    assert all(math.prod(mesh.values()) == 16 for mesh in meshes)
    assert {mesh["model"] for mesh in meshes} == {1, 2, 4, 8}
    assert {mesh["expert"] for mesh in meshes} == {1, 2}
    assert len({tuple(mesh.values()) for mesh in meshes}) == len(meshes)


def test_rare_axes_go_with_what_they_can_be_beside():
    meshes = list(rare_meshes(POD, experts=2))
    assert all(math.prod(mesh.values()) == 16 for mesh in meshes)
    assert all([*mesh] == [axis for axis in AXES if axis in mesh] for mesh in meshes)
    for mesh in meshes:
        assert len({*RARE} & {*mesh}) == 1
        assert "stage" not in mesh or mesh["fsdp"] == 1
        assert "context" not in mesh or mesh["data"] == 1
    assert {mesh.get("stage") for mesh in meshes} == {None, 2, 4, 8, 16}
    assert {mesh["expert"] for mesh in meshes if "stage" in mesh} == {1, 2}


def test_axes_are_whole_sides_of_a_tpus_slice():
    cube = parse_target("v5p:8x8x8")
    assert on_sides([1, 512, 1, 1], cube) and on_sides([1, 64, 1, 8], cube)
    assert not on_sides([1, 256, 1, 2], cube)
    assert all(on_sides([*mesh.values()], cube) for mesh in meshes_of(cube))
    assert on_sides([1, 8, 1, 2], POD)


@pytest.fixture(scope="module")
def planned():
    """GPT-2 on 2 x 2 devices."""
    request = Request.from_flags("a", "gpt2", mesh="data=1,fsdp=2,model=2")
    with open_template() as template:
        program = read_model(request, template).program()
        return Planned(request, program, plan_program(request, program), True, 1024)


def test_the_state_on_a_device_is_its_share_and_more_examples_take_longer_and_more_memory(planned):
    whole = 4 * planned.elements
    # Norms and biases lie on every device; the padding of the vocabulary is 1 word of 50,257.
    assert whole / 4 < planned.parameter_bytes < 1.01 * whole / 4
    target = parse_target("h100:4")
    few, many = (estimate_step(planned, target, rows) for rows in (8, 32))
    assert 3 < many.parts["products"] / few.parts["products"] < 4.1
    assert few.memory.arguments < many.memory.arguments < few.memory.peak < many.memory.peak
    again = estimate_step(planned, target, 32, remat="nothing_saveable")
    assert again.memory.peak < many.memory.peak and again.parts["products"] > many.parts["products"]
    split = estimate_step(planned, target, 32, micro_batches=4)
    assert (
        split.memory.temporary < many.memory.temporary and split.bound_seconds > many.bound_seconds
    )


def test_heads_that_fill_half_of_a_tpus_multipliers_take_twice_as_long(planned):
    def cycles(kind):  # of attention, heads of 64
        target = parse_target(kind)
        return estimate_step(planned, target, 8).parts["attention"] * target.hardware.flops["int8"]

    assert cycles("v6e:4") == pytest.approx(2 * cycles("v5e:4"))  # 256 wide, and 128


@pytest.mark.parametrize(("base", "bits"), [("", 16), ("int8", 8), ("nf4", 4)])
def test_what_is_frozen_has_no_gradients_and_is_copied_where_layers_are_written_out(base, bits):
    lora = f"rank=4,base={base}" if base else "rank=4"
    request = Request.from_flags("a", "llama", size="3.2-1b", recipe="sft", lora=lora)
    with open_template() as template:
        program = read_model(request, template).program()
        found = Planned(request, program, plan_program(request, program), True, 512)
    one = estimate_step(found, parse_target("h100:1"), 8)
    assert one.memory.peak > one.memory.arguments + found.copied_bytes
    assert found.moment_bytes == found.gradient_bytes < 0.02 * found.parameter_bytes
    layers = (
        973e6  # parameters of its matrices in layers; the table of its vocabulary is never in codes
    )
    assert bits * layers / 8 < found.parameter_bytes < 2.7e9
    assert 2 * layers < found.copied_bytes < 2 * 1.5e9
    assert one.model_flops < 0.72 * 6 * 8 * 512 * 1.24e9, "two products of each kernel"


@pytest.mark.parametrize("axis", RARE)
def test_an_estimate_knows_what_rare_axes_send_and_wait_for(axis):
    """Of gpt2 on two devices: layers of stages run in all of M + 1 ticks, forward twice."""

    def price_on(mesh, rows):
        with open_template() as template:
            trial = Trial({"data": 1, "fsdp": 1, "expert": 1, **mesh, "model": 1}, 0, False, rows)
            planner = Planner(Request.from_flags("a", "gpt2"), template, None)
            return price(planner, parse_target("h100:2"), trial, exact=False)

    whole, few, many = (price_on({axis: n}, rows) for n, rows in ((1, 8), (2, 8), (2, 64)))
    assert price_on({axis: 2}, 3) is None or axis == "context", "3 rows on 2 devices"
    assert few.parts[axis] > 0 and few.parts["products"] < 0.9 * whole.parts["products"]
    bubble = (few.parts["attention"] / 8) / (many.parts["attention"] / 64)
    waits = 9 / 8 / (65 / 64) if axis == "stage" else 1
    assert bubble == pytest.approx(waits, rel=1e-3)


def test_stages_have_parts_of_their_layers_where_the_bubble_costs_more_than_their_way():
    """Parts change stages once a step, and are there twice; 4 layers of each stage go in 1, 2 or 4."""
    with open_template() as template:
        planner = Planner(Request.from_flags("a", "gpt2", size="xl"), template, None)
        mesh = {"data": 1, "fsdp": 1, "expert": 1, "stage": 12, "model": 1}
        few, many = (Trial(mesh, 0, False, rows) for rows in (12, 12 * 64))
        target = parse_target("h100:12")
        around = {one.repeats: one for one in _around(planner, target, few)}
        assert [*around] != [1, 2, 4] == sorted(around)
        assert _around(planner, target, many)[0].repeats == 1
        once, twice = (price(planner, target, around[n]) for n in (1, 2))
    assert twice.seconds < once.seconds and once.peak < twice.peak
    assert twice.parts["attention"] / once.parts["attention"] == pytest.approx(35 / 2 / 23)
    assert twice.name == "stage=12 stage-repeats=2" and "--stage-repeats 2" in twice.settings


def test_rare_axes_are_proposed_where_the_others_do_not_fit():
    request = Request.from_flags("a", "llama", size="7b", sequence_length=2**19)
    with open_template() as template:
        found = search(request, parse_target("h100:8"), template, 1)
    assert found.best.mesh["context"] == 8
    others = [one for one in found.trials if not {*RARE} & {*one.mesh}]
    assert others and all("does not fit" in one.reason for one in others)


def test_a_ring_is_proposed_where_devices_have_no_heads_each_or_not_in_one_host():
    """gpt2 has 12 heads, llama 32: of 8 devices in a host, and of 16 in two."""
    with open_template() as template:
        for model, pod, context, ring in (
            ("gpt2", "h100:8", 4, False),
            ("gpt2", "h100:8", 8, True),
            ("llama", "h100:2x8", 8, False),
            ("llama", "h100:2x8", 16, True),
        ):
            target, sizes = parse_target(pod), {"size": "7b"} if model == "llama" else {}
            planner = Planner(
                Request.from_flags("a", model, **sizes), template, 32768 if sizes else None
            )
            mesh = {
                "data": 1,
                "fsdp": target.devices // context,
                "expert": 1,
                "context": context,
                "model": 1,
            }
            one = _with_attention(planner, target, Trial(mesh, 0, False, 16))[0]
            assert one.ring == ring and ("context-attention=ring" in one.name) == ring
            assert one.flags["context_attention"] == ("ring" if ring else "heads")
    assert with_trial(planner.request, one).context_attention == "ring"


def test_moments_of_the_hosts_take_nothing_of_a_device(planned):
    host = replace(planned, request=replace(planned.request, optimizer_memory="host"))
    here, there = (estimate_step(one, parse_target("h100:4"), 8) for one in (planned, host))
    assert here.memory.arguments - there.memory.arguments == 2 * planned.moment_bytes > 0


def test_the_hosts_memory_is_offered_where_nothing_fits_without():
    request = Request.from_flags("a", "gpt-j")
    with open_template() as template:
        found = search(request, parse_target("h100:1"), template)
        assert found.best is None and 0 < found.hosted.peak <= found.target.hardware.usable
        muon = replace(request, features=("muon",))
        assert search(muon, parse_target("h100:1"), template).hosted is None


def test_texts_longer_than_the_model_takes_are_bad_input(planned):
    with pytest.raises(
        RedcoError,
        match="^--seq 4096: 4096 tokens exceed max_positions 1024: shorten or raise it; give",
    ):
        replace(planned, length=4096).needs(8)


def test_a_search_ends_with_the_fastest_that_fits_and_says_why_others_lost():
    with open_template() as template:
        found = search(Request.from_flags("a", "gpt2"), parse_target("h100:2"), template, 16)
    assert found.best is found.trials[0] and 0 < found.best.peak <= found.target.hardware.usable
    rare = [one for one in found.trials if {*RARE} & {*one.mesh}]
    assert {*RARE} == {axis for one in rare for axis in RARE if axis in one.mesh}
    assert found.best not in rare
    assert all(one.reason and one.seconds >= found.best.seconds for one in found.trials[1:])
    assert found.fewest_target.devices <= 2 and found.fewest.peak <= found.target.hardware.usable
    assert {one.batch for one in found.trials} == {16}
    least = sum(found.best.parts[part] for part in COMPUTING)
    assert math.isclose(found.best.seconds, found.target.hardware.step_seconds(least))


@pytest.mark.parametrize(
    ("asked", "target", "faster"),
    [
        ({}, "h100:2", True),
        ({}, "a100-80g:2", False),
        ({"products": "float8"}, "h100:2", False),
        ({"recipe": "grpo"}, "h100:2", False),
    ],
)
def test_products_in_8_bits_are_offered_where_they_are_faster(asked, target, faster):
    with open_template() as template:
        request = Request.from_flags("a", "gpt2", size="xl", **asked)
        planner, machine = Planner(request, template, None), parse_target(target)
        trial = Trial({"data": 2, "fsdp": 1, "expert": 1, "model": 1}, 0, False, 4)
        best = price(planner, machine, trial) if faster else replace(trial, seconds=math.inf)
        offer = _in_8_bits(planner, machine, best)
    assert (offer is not None) == faster
    if faster:
        assert 0.5 * best.seconds < offer.seconds < best.seconds


def test_fsdp_that_divides_nothing_is_not_offered():
    with open_template() as template:
        planner = Planner(Request.from_flags("a", "gpt2"), template, None)
        trials = (
            Trial({"data": 8192 // n, "fsdp": n, "expert": 1, "model": 1}, 0, False, 8192)
            for n in (256, 8192)
        )
        assert [planner.plan(trial) is None for trial in trials] == [False, True]


def test_larger_batches_come_first_where_an_example_takes_less_time_and_that_is_compiled(
    monkeypatch,
):
    with open_template() as template:
        found = search(Request.from_flags("a", "gpt2"), parse_target("h100:1"), template)
    assert found.best.batch > min(one.batch for one in found.trials)
    monkeypatch.setattr(compiling, "_compile", lambda *_: FITS)
    monkeypatch.setattr("redco_fit.search.compile_best.environment", lambda platform: {})
    assert compiling.compile_best(None, found, None, print)[0] == found.best


def test_a_full_disk_is_no_mesh_that_cannot_be_compiled(monkeypatch):
    target = parse_target("h100:2")
    trials = tuple(Trial({axis: 2}, 0, False, 2, peak=1) for axis in ("data", "fsdp"))
    monkeypatch.setattr("redco_fit.search.compile_best.environment", lambda platform: {})
    full = RedcoError(SCRATCH, "the compiler has no room in /tmp", "make room there")

    def compile_trial(*_):
        raise full

    monkeypatch.setattr(compiling, "_compile", compile_trial)
    with pytest.raises(RedcoError, match="^TMPDIR: the compiler has no room"):
        compiling.compile_best(None, Search(target, trials, None, None, 1.0), None, print)


@pytest.mark.slow
def test_what_nothing_fits_has_no_best():
    request = Request.from_flags("a", "llama", size="7b")
    with open_template() as template:
        found = search(request, parse_target("1080ti:2"), template, 2)
    assert found.best is None and found.fewest is None
    assert all("does not fit" in one.reason for one in found.trials)


def test_an_own_class_is_refused():
    request = replace(Request.from_flags("a", "gpt2"), own=object())
    with open_template() as template, pytest.raises(RedcoError, match="give --mesh"):
        search(request, POD, template)


def test_what_hardware_chooses_is_not_given_too():
    error = complaint("redco-new my-project --model gpt2 --hardware h100:8 --shards 4")
    assert "--shards: is chosen by --hardware h100:8" in error


def test_what_is_near_is_compiled_where_nothing_fits_by_the_estimate(monkeypatch):
    target = parse_target("h100:4")
    limit = target.hardware.usable
    shares = {"data": 2.0, "fsdp": 1.3, "model": 1.5}
    trials = tuple(
        Trial({axis: 4}, 0, False, 8, seconds=1.0, peak=int(share * limit), reason="does not fit")
        for axis, share in shares.items()
    )
    # Of this one that is the state alone, which no compiler makes smaller.
    trials += (replace(trials[1], mesh={"expert": 4}, peak=limit + 1, state=limit + 1),)
    result = Search(target, trials, None, None, 1.0)
    asked, answers = [], {"fsdp=4": replace(FITS, peak_bytes=2 * limit), "model=4": FITS}

    def compile_trial(request, result, trial, length, progress):
        asked.append(trial.name)
        return answers[trial.name]

    monkeypatch.setattr(compiling, "_compile", compile_trial)
    monkeypatch.setattr("redco_fit.search.compile_best.environment", lambda platform: {})
    best, reading, note = compiling.compile_best(None, result, None, print)
    assert asked == ["fsdp=4", "model=4"] and reading is FITS
    assert best == replace(trials[2], reason="")
    assert note.startswith(
        "nothing fits: fsdp=4 needs 83 of 64 GB a device, by the estimate; fsdp=4 is refused"
    )
