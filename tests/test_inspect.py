"""What `redco inspect` prints, and the document behind it."""

import dataclasses
import json

import jax
import pytest
import samples

from redco_new.generate.read import plan_request
from redco_new.inspect import units
from redco_new.inspect.document import plan_document, whole_parameters
from redco_new.inspect.elements import count_elements
from redco_new.inspect.report import report_plan
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_plan import plan_sharding

BIG = {
    "path": "table",
    "shape": [1000, 500],
    "shard_shape": [1000, 500],
    "bytes": 2_000_000,
    "reason": "it is short",
}
MESH = {"data": 1, "fsdp": 2, "model": 4}


@pytest.fixture(scope="module")
def doc():
    return plan_document("small", samples.PLAN)


def lines_of(capsys, plan=samples.PLAN):
    report_plan("small", plan)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_json_is_the_document(capsys, doc):
    report_plan("small", samples.PLAN, as_json=True)
    assert json.loads(capsys.readouterr().out) == doc
    keys = "model mesh batch parameters classes memory whole collectives layer sent warnings"
    assert list(doc) == keys.split()
    assert doc["mesh"] == MESH
    assert doc["parameters"] == samples.PLAN.rows()
    assert doc["batch"] == {"B": 8, "S": 16}


def test_stages_have_layers_of_their_own_and_gather_what_is_in_none():
    with open_template() as template:
        plan = plan_request(Request.from_flags("a", "gpt2", mesh="stage=2,data=2"), template)
    doc = plan_document("gpt2", plan)
    layers = next(one for one in doc["classes"] if one["label"] == "layers")
    assert layers["axes"] == ["stage"] and layers["why"] == "each stage computes with its own"
    gathered = [one for one in doc["collectives"] if one["array"] == "parameters"]
    table = 50257 * 768 * 4
    assert {one["kind"] for one in gathered} == {"all-gather"}
    assert all(table <= one["bytes"] < 1.1 * table for one in gathered), "of the vocabulary alone"
    assert {*doc["sent"]} >= {"stage", "data"}


def test_classes_are_told_in_words(doc):
    by_label = {one["label"]: one for one in doc["classes"]}
    assert by_label.keys() == {"vocab", "embed", "mlp"}
    assert by_label["mlp"] == {
        "label": "mlp",
        "letter": "F",
        "sizes": [2048],
        "count": 1,
        "parameters": 2,
        "axes": ["model"],
        "parts": 4,
        "fsdp": 0,
        "what": "hidden units between two kernels",
        "why": "made by columns of up, contracted by rows of down",
    }
    assert by_label["embed"]["why"] == "not split over model: mlp and vocab of the same arrays are"
    assert (by_label["embed"]["axes"], by_label["embed"]["fsdp"]) == ([], 4)


def test_memory_counts_what_a_device_holds(doc):
    held = (2 * 1600 * 512 + 2 * 512 * 2048) // 8 + 1
    assert doc["memory"] == {
        "elements": 2 * 1600 * 512 + 2 * 512 * 2048 + 1,
        "trained": 2 * 1600 * 512 + 2 * 512 * 2048 + 1,
        "all_parameters": 4 * (2 * 1600 * 512 + 2 * 512 * 2048 + 1),
        "parameters": 4 * held,
        "gradients": 4 * held,
        "moments": 8 * held,
        "together": 16 * held,
    }


def test_a_matrix_in_few_bits_counts_as_it_is_whole():
    array = {"path": "up/lora_a", "dtype": "float32", "shape": [8, 2]}
    for dtype, rows in (("int8", 4), ("uint8", 2)):
        codes = {"path": "up/codes", "dtype": dtype, "shape": [2, rows, 6]}
        scales = {"path": "up/scales", "dtype": "bfloat16", "shape": [2, 1, 6]}
        assert count_elements([codes, array, scales]) == 8 * 6 + 8 * 2
        assert count_elements([array, scales | {"path": "down/scales"}]) == 8 * 2 + 2 * 6


def test_targets_of_a_recipes_own_model_are_not_trained():
    with open_template() as template:
        plan = plan_request(Request.from_flags("a", None, recipe="ddpg", shards="2"), template)
    memory = plan_document("ddpg", plan)["memory"]
    assert memory["trained"] == memory["elements"] / 2
    assert (memory["gradients"], memory["moments"]) == (
        memory["parameters"] / 2,
        memory["parameters"],
    )


def test_collectives_have_the_line_that_causes_them(doc):
    (one,) = [c for c in doc["collectives"] if c["classes"] == ["mlp"] and c["phase"] == "forward"]
    source = one.pop("sources")[0]
    assert one == {
        "kind": "all-reduce",
        "phase": "forward",
        "axes": ["model"],
        "classes": ["mlp"],
        "array": "B S D",
        "bytes": 8 // 2 * 16 * 512 * 4,
        "times": 1,
    }
    line = samples.forward.__code__.co_firstlineno + 3
    assert source == f"samples.py:{line} (forward)"


def test_what_jax_traces_later_is_caused_by_lines_of_the_project_too():
    request = Request.from_flags("a", "gpt2", lora="rank=2,base=nf4", mesh="fsdp=2,model=2")
    with open_template() as template:
        collectives = plan_document("gpt2", plan_request(request, template))["collectives"]
    sources = {source for one in collectives for source in one["sources"]}
    assert any("MLP.__call__" in source for source in sources)
    assert {source.partition(":")[0] for source in sources} == {"model.py", "pipeline.py"}


def test_large_parameters_that_stay_whole():
    assert whole_parameters([BIG], MESH) == ["table, 2.0 MB: it is short"]
    assert whole_parameters([{**BIG, "shard_shape": [500, 500]}], MESH) == []
    assert whole_parameters([{**BIG, "bytes": 1_000_000}], MESH) == []
    assert whole_parameters([BIG], {"data": 8, "fsdp": 1, "model": 1}) == []


def test_text(capsys):
    lines = lines_of(capsys)
    assert "small on the mesh data 1, fsdp 2, model 4".split() in lines
    up = 'up 512 2048 embed mlp P("fsdp", "model") 256 512 columns: makes mlp, which down contracts'
    assert up.split() in lines
    sent = "all-reduce forward model mlp B S D 131.1 kB 1 samples.py"
    assert any(line[:10] == sent.split()[:-1] for line in lines)
    text = [" ".join(line) for line in lines]
    assert any(line.startswith("mlp F 2048 2 model, 4 ways hidden units") for line in text)
    assert "whole nothing over 1.0 MB is left whole" in text
    assert any("together 7.5 MB; activations come on top" in line for line in text)


def test_text_folds_no_word_where_there_is_no_terminal(capsys):
    reason = "because " * 12
    plan = dataclasses.replace(samples.PLAN, reasons=(reason.strip(),) * 5)
    assert reason.split() == lines_of(capsys, plan)[5][-12:]


def test_warnings(capsys):
    plan = dataclasses.replace(samples.PLAN, warnings=("no rule for the primitive foo",))
    assert "warning: no rule for the primitive foo".split() in lines_of(capsys, plan)


def test_axes_that_are_taken_apart_and_padding_are_told():
    mesh = {"data": 1, "fsdp": 1, "model_1": 2, "model_2": 4}
    assert (
        units.mesh_text(mesh) == "data 1, fsdp 1, model 8, taken apart into model_1 2 and model_2 4"
    )
    row = {"shape": [84, 32], "stored_shape": [88, 32], "shard_shape": [11, 32]}
    assert units.device_text(row) == "11 32 (padded to 88 32 in all)"
    assert units.spec_text([["model_1", "model_2"], None]) == 'P(("model_1", "model_2"), None)'


@pytest.mark.parametrize(
    ("n", "told"), [(0, "0.0 B"), (999, "999.0 B"), (1e3, "1.0 kB"), (6.05e9, "6.0 GB")]
)
def test_sizes(n, told):
    assert units.size_text(n) == told


def test_what_was_done_with_odd_sizes_is_told():
    def forward(params, batch):
        x = params["table"][batch["ids"]]
        x = x + jax.nn.relu(x @ params["up"]) @ params["down"]
        return x @ params["table"].T

    params = samples.shapes(table=(199, 32), up=(32, 60), down=(60, 32))
    batch = {"ids": jax.ShapeDtypeStruct((8, 16), "int32")}
    found = plan_document("odd", plan_sharding(forward, params, batch, {"model": 8}, adapt=True))
    why = {one["label"]: one["why"] for one in found["classes"]}
    table = "rows of table are looked up, made by columns of table"
    assert why["vocab"] == f"{table}; 199 does not divide by 8, so it is padded to 200 in memory"
    assert why["mlp"].endswith("; 60 does not divide by 8: in 4 parts, each on 2 devices")
