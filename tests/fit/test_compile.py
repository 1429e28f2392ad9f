"""A project's own step, compiled for machines that are not here."""

import json
from pathlib import Path

import pytest
from compiled.targets import use_compilers
from redco_fit import compiling
from redco_fit.compiling import compile_step, compile_steps
from redco_fit.hardware import HARDWARE
from redco_fit.reading import Job
from redco_fit.target import parse_target
from redco_new.errors import RedcoError
from redco_new.generate.read import plan_request
from redco_new.project.create import create_project
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_plan import predict_collectives

pytestmark = pytest.mark.slow  # the compilers of GPU and TPU

SMALL = {"num_layers": 2}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    request = Request.from_flags("words", "gpt2", mesh="fsdp=2")
    return create_project(request, tmp_path_factory.mktemp("fit"))


@pytest.fixture(autouse=True)
def compilers(monkeypatch):
    use_compilers(monkeypatch)


def test_jobs_of_one_project_are_read_or_refused_each_by_itself(project):
    jobs = [
        Job({"fsdp": 2}, batch=4, length=128, settings=SMALL),
        Job({"fsdp": 3}, settings=SMALL),
        Job({"fsdp": 2}, batch=3, settings=SMALL),
        Job({"fsdp": 2}, length=10**6, settings=SMALL),
    ]
    reading, *wrong = compile_steps(project, parse_target("h100:2"), jobs)
    assert reading.fits and (reading.mesh, reading.batch, reading.length) == ({"fsdp": 2}, 4, 128)
    # Parameters in float32 and two moments, half of them on each device.
    state = sum(reading.memory[kind] for kind in ("parameters", "optimizer", "variables", "batch"))
    assert reading.argument_bytes == pytest.approx(state, rel=0.01)
    assert reading.memory["optimizer"] == pytest.approx(2 * reading.memory["parameters"], rel=0.01)
    assert reading.argument_bytes < reading.peak_bytes < reading.limit_bytes
    assert 0.8 < reading.flops / reading.model_flops < 1.5
    h100 = HARDWARE["h100"]
    assert reading.step_seconds == pytest.approx(h100.step_seconds(reading.bound_seconds))
    assert {one.axis for one in reading.collectives} == {"fsdp"}
    assert {"all-gather", "reduce-scatter"} <= {one.kind for one in reading.collectives}
    assert [type(error) for error in wrong] == [RedcoError] * 3
    for error, where in zip(wrong, ("--mesh", "--batch", "--seq"), strict=True):
        assert error.where == where


def test_the_fault_of_an_edited_loss_is_named_by_its_line(project, monkeypatch):
    monkeypatch.setattr(compiling, "CHILD", "redco_fit.child")  # as users start it
    path = project / "words" / "pipeline.py"
    text = path.read_text()
    path.write_text(
        text.replace(
            "    losses_BS = cross", "    x_BSD = x_BSD @ labels_BS\n    losses_BS = cross"
        )
    )
    line = path.read_text().splitlines().index("    x_BSD = x_BSD @ labels_BS") + 1
    try:
        with pytest.raises(
            RedcoError, match=f"^words/pipeline.py:{line}: its step does not compile"
        ):
            compile_step(project, parse_target("h100:2"), Job({"fsdp": 2}, batch=2, length=128))
    finally:
        path.write_text(text)


def test_a_tpus_compiler_refuses_in_its_own_words(project):
    job = Job({"fsdp": 4}, batch=4096, settings=SMALL | {"remat": "everything_saveable"})
    reading = compile_step(project, parse_target("v5e:2x2"), job)
    assert not reading.fits and "CompileTimeHbmOom" in reading.refused
    assert reading.peak_bytes > reading.limit_bytes == int(15.75 * 2**30)


def test_the_example_of_the_readme(project):
    text = (Path(__file__).parents[2] / "generator/redco_fit/README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    exec(code.replace("my-project", str(project)), {})


def test_a_text_of_a_million_tokens_fits_on_8_gpus_where_layers_offload(tmp_path):
    """Flash attention runs forward once then, and all-to-alls are all that attention sends: 12 a layer."""
    flags = {"mesh": "context=8", "size": "7b", "sequence_length": 2**20}
    project = create_project(Request.from_flags("long-texts", "llama", **flags), tmp_path)
    jobs = [Job(batch=1), Job(batch=1, settings={"remat": "offload"})]
    again, offload = compile_steps(project, parse_target("h100:8"), jobs)
    for reading in (again, offload):
        sent = [one for one in reading.collectives if one.kind == "all-to-all" and one.count > 1]
        assert sum(one.count for one in sent) == 12 * 32
        gathers = [one for one in reading.collectives if one.kind == "all-gather"]
        assert (
            sum(one.bytes for one in gathers) < 30e9
        ), "parameters, and nothing that has positions"
    assert again.peak_bytes < 78 * 2**30, "a device has 79.6; JAX takes three quarters by default"
    assert offload.fits and offload.peak_bytes < 52 * 2**30 and offload.host_bytes < 66 * 2**30
    assert offload.flops < 0.8 * again.flops


def test_moments_on_the_host_come_to_the_device_one_parameter_after_the_other(tmp_path):
    readings = {}
    for memory in ("device", "host"):
        flags = {"mesh": "fsdp=8", "size": "7b", "optimizer_memory": memory}
        project = create_project(Request.from_flags(memory, "llama", **flags), tmp_path)
        job = Job(batch=8, length=2048, settings={"remat": "nothing_saveable"})
        [readings[memory]] = compile_steps(project, parse_target("h100:8"), [job])
    here, host = readings["device"], readings["host"]
    moments = here.memory["optimizer"]
    assert host.host_bytes == pytest.approx(moments, rel=1e-3) and host.memory["optimizer"] <= 8
    assert here.argument_bytes - host.argument_bytes == pytest.approx(moments, rel=1e-3)
    largest = 4 * 32 * 4096 * 11008 / 8  # on their way: two moments of a parameter each way
    assert here.peak_bytes - host.peak_bytes > moments - 4 * largest, (here.memory, host.memory)
    [note] = [one for one in host.notes if "come from the host" in one]
    assert "at least 105 ms more" in note, note


MT_NLG = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 20480},
    **{"num_hidden_layers": 105, "num_attention_heads": 128, "num_key_value_heads": 128},
    **{"intermediate_size": 54656, "vocab_size": 51200, "max_position_embeddings": 2048},
    **{"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False},
}


@pytest.mark.long
def test_a_ring_sends_what_is_predicted(tmp_path):
    """Keys and values of each of 8 devices, once around in each pass, and gradients; parameters alone are gathered."""
    flags = {"mesh": "context=8", "size": "7b", "sequence_length": 2**17}
    request = Request.from_flags("around", "llama", context_attention="ring", **flags)
    with open_template() as template:
        plan = plan_request(request, template)
    project, settings = create_project(request, tmp_path), {"remat": "attention"}
    job = Job(batch=1, settings=settings)
    [reading] = compile_steps(project, parse_target("h100:8"), [job])
    moved = [one for one in predict_collectives(plan) if one.kind == "collective-permute"]
    sent = [one for one in reading.collectives if one.kind == "collective-permute"]
    assert sum(one.count for one in sent) == sum(one.times for one in moved)
    rows = 8  # that are traced
    assert sum(one.bytes for one in sent) == sum(one.times * one.bytes for one in moved) / rows
    gathered = sum(one.bytes for one in reading.collectives if one.kind == "all-gather")
    assert gathered < 30e9
    # By cuDNN's kernel, once forward: of the scores of all pairs those of a causal order, and no more.
    assert reading.flops / reading.model_flops == pytest.approx(0.62, abs=0.03)
    assert reading.peak_bytes < 29 * 2**30


@pytest.mark.long
def test_a_model_of_the_shape_of_mt_nlg_fits_280_gpus(tmp_path):
    """530 billion parameters, as Smith et al. 2022 trained them on 280 of A100-80GB: 35 stages, in each tensor-parallel in a host."""
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape/config.json").write_text(json.dumps(MT_NLG))
    flags = {"mesh": "stage=35,model=8", "sequence_parallel": True}
    request = Request.from_flags("stages", str(tmp_path / "shape"), **flags)
    project = create_project(request, tmp_path)
    [reading] = compile_steps(project, parse_target("h100:280"), [Job(batch=280)])
    assert reading.fits and reading.peak_bytes < 56 * 2**30
    sent = {one.axis for one in reading.collectives if one.kind == "collective-permute"}
    assert sent == {"stage"}, "and nothing of a layer, between hosts"


def test_layers_of_70b_in_stages(tmp_path):
    """Two permutes a tick each way, of micro-batches whose positions `model` splits; 71 ticks, 7 of which a stage waits."""
    flags = {"mesh": "stage=8,model=8", "size": "70b", "sequence_parallel": True}
    project = create_project(Request.from_flags("stages", "llama", **flags), tmp_path)
    jobs = [Job(batch=64), Job(batch=32, settings={"stage_repeats": 2})]
    reading, around = compile_steps(project, parse_target("h100:64"), jobs)
    assert reading.fits and reading.peak_bytes < 25 * 2**30
    # Twice around, the same bubble of half as many rows; both halves of the layers are there, once.
    assert around.fits and around.peak_bytes < 27 * 2**30
    sent = [
        one for one in reading.collectives if one.kind == "collective-permute" and one.count > 1
    ]
    assert {one.axis for one in sent} == {"stage"} and sum(one.count for one in sent) == 4 * 71
    assert sum(one.bytes for one in sent) < 2.5e9
    # One more forward pass than a model has, of three times its products, and the bubble.
    assert reading.flops / reading.model_flops == pytest.approx(4 / 3 * 71 / 64, rel=0.05)


def test_layers_with_experts_in_stages(tmp_path):
    """A device of 32 has 2 of 8 layers, an expert of each, and 19 ticks: no kernel is sent, and gradients once a step."""
    flags = {"mesh": "stage=4,expert=8", "size": "8x7b"}
    project = create_project(Request.from_flags("experts", "mixtral", **flags), tmp_path)
    job = Job(batch=128, length=4096, settings={"num_layers": 8})
    [reading] = compile_steps(project, parse_target("h100:32"), [job])
    assert reading.fits and reading.peak_bytes < 15 * 2**30
    sent = [one for one in reading.collectives if one.bytes > 2**20]
    permutes = [one for one in sent if one.kind == "collective-permute" and one.count > 1]
    assert {one.axis for one in permutes} == {"stage"}
    assert {one.axis for one in sent if one.count > 1 and one not in permutes} == {"expert"}
    rows = 19 * 2 * 8 * 4096 * 4096 * 2  # of 8 devices in bfloat16, in each of 2 layers a tick
    gathered = sum(one.bytes for one in sent if one.kind == "all-gather" and one.count > 1)
    assert gathered == pytest.approx(4 * rows, rel=0.01)
