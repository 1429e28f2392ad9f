"""What a search makes of experts: their rows, and what they move and send."""

from dataclasses import replace

import pytest

from redco_fit.target import parse_target
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_fit.search.estimate import estimate_step
from redco_fit.search.memory import LEAST
from redco_fit.search.model import Planned
from redco_fit.search.work import work_of

L, E, D, F = 32, 8, 4096, 14336  # Mixtral 8x7B; X is 2
MESHES = ("fsdp=8", "fsdp=2,expert=4", "fsdp=2,model=4", "data=2,expert=4")


@pytest.fixture(scope="module")
def planned():
    """Mixtral 8x7B on some meshes, by their name."""
    with open_template() as template:

        def plan(mesh):
            request = Request.from_flags("a", "mixtral", size="8x7b", mesh=mesh)
            program = read_model(request, template).program()
            return Planned(request, program, plan_program(request, program), True, 2048)

        return {mesh: plan(mesh) for mesh in MESHES}


@pytest.mark.parametrize(
    ("mesh", "here", "sent", "mlp"),
    [
        ("fsdp=8", E, 2 * 2 * 2048, F),
        ("fsdp=2,expert=4", E // 4, 2 * 8 * 2048, F),
        ("fsdp=2,model=4", E, 2 * 8 * 2048, F // 4),
    ],
)
def test_a_device_has_room_for_the_rows_of_all_experts_and_multiplies_those_of_its_own(
    planned, mesh, here, sent, mlp
):
    every = work_of(planned[mesh], 16, "gpu").routed
    assert len(every) == 3 and all(one.times == L for one in every)
    assert [(one.groups.inner, one.groups.columns) for one in every] == [
        (D, mlp),
        (D, mlp),
        (mlp, D),
    ]
    for one in every:
        room = sent if here == E else 1.25 * sent * here / E
        assert one.groups.groups == here and one.room == (room + here * 127) // 128 * 128
        assert one.groups.rows == sent * here / E + here * 127 / 2
        assert one.kernels == L * here * D * mlp


def test_a_model_without_experts_has_no_such_product():
    request = Request.from_flags("a", "gpt2", mesh="fsdp=2")
    with open_template() as template:
        program = read_model(request, template).program()
    model = Planned(request, program, plan_program(request, program), True, 1024)
    assert work_of(model, 8, "gpu").routed == ()


def test_tiles_read_of_the_cache_take_longer_than_their_flops(planned):
    target = parse_target("h100:8")
    one = work_of(planned["fsdp=8"], 16, "gpu").routed[0]
    seconds = target.hardware.step_seconds(one.seconds(target.hardware, "bfloat16", False))
    # On an H100 these products reach 324 to 473 TFLOP/s with twice as many rows (tests/tools/device/experts.py).
    assert 300e12 < 3 * one.flops / seconds < 480e12
    # A TPU's tiles are not known to wait.
    tpu = parse_target("v5p:2x2x2").hardware
    assert one.seconds(tpu, "bfloat16", False) == pytest.approx(
        3 * one.flops / tpu.flops["bfloat16"]
    )


def test_what_is_computed_again_of_experts_takes_its_seconds(planned):
    target, model = parse_target("h100:8"), planned["fsdp=8"]
    once, twice = (
        estimate_step(model, target, 16, memory=replace(LEAST, routed=routed)).parts["products"]
        for routed in (True, False)
    )
    first, second, last = work_of(model, 16, "gpu").routed
    seconds = [one.seconds(target.hardware, "bfloat16", True) for one in (first, second, last)]
    saved = [one.seconds(target.hardware, "bfloat16", False) for one in (first, second, last)]
    assert twice - once == pytest.approx(sum(seconds) - sum(saved)) and seconds[2] == saved[2]


def test_kernels_that_are_sent_are_waited_for_and_a_tpu_adds_up_whole_gradients(planned):
    gpu, tpu = (
        estimate_step(planned["fsdp=8"], parse_target(name), 16, memory=LEAST)
        for name in ("h100:8", "v5p:2x2x2")
    )
    kernels = 0.96  # of the parameters
    assert gpu.exposed > 2 / 3 * kernels * gpu.links["fsdp"]
    assert tpu.exposed > kernels * tpu.links["fsdp"]
    # Three passes of all kernels, and on TPUs one more; a device sends 7/8 of them, there along three sides.
    sent = 3 * L * E * D * F * 2 * 7 / 8
    assert gpu.links["fsdp"] == pytest.approx(3 * sent / (0.8 * 450e9), rel=0.1)
    assert tpu.links["fsdp"] == pytest.approx(4 * sent / (0.65 * 90e9) / 3, rel=0.1)


def test_gradients_go_once_over_all_that_splits_rows_but_fsdp(planned):
    model, target = planned["data=2,expert=4"], parse_target("h100:8")
    once, split = (estimate_step(model, target, 32, n, memory=LEAST).links for n in (1, 4))
    assert once.keys() == {"data", "expert", "data+expert"}
    assert all(once[axes] == pytest.approx(split[axes]) for axes in once if axes != "expert")
