"""Projects whose sizes do not divide by the devices, and what each device holds of them."""

import re
import shutil
import sys

import pytest
from generated import make, metrics, run, texts
from jax.sharding import PartitionSpec as P

from redco_new.models.families import FAMILIES
from redco_new.models.family import CAUSAL
from redco_new.project.create import create_project
from redco_new.request import Request


def test_texts_of_both_presets_are_cut_in_equal_parts():
    request = Request.from_flags("my-project", "llama", mesh="context=3", context_attention="ring")
    files, *_ = texts(request)
    lengths = re.findall(r"sequence_length(?:: int ?)?=? ?=? ?(\d+)", files["my_project/config.py"])
    assert lengths == ["4092", "132"]


@pytest.mark.long
def test_the_tests_of_a_project_pass_where_sizes_are_odd(tmp_path):
    folder = make(tmp_path, shards="6", zero=1, sequence_parallel=True)
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'not boot'", folder)
    assert code == 0 and re.search(r"^[3-9] passed", out, re.MULTILINE), out + err


@pytest.mark.slow
def test_experts_and_their_routers_learn_the_same_on_any_devices(tmp_path):
    """With two micro-batches, whose gradients the devices of `data` and `expert` add up."""
    request = Request.from_flags("my-project", "mixtral", mesh="data=2,expert=2")
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k 'unsharded and 2'", folder)
    assert code == 0 and "1 passed" in out, out + err


def _learn_the_same_where_positions_are_split(model, tmp_path, **flags):
    flags = {"mesh": "fsdp=2,context=2,model=2", **flags}
    request = Request.from_flags("my-project", model, **flags)
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k unsharded", folder)
    assert code == 0 and "2 passed" in out, out + err


@pytest.mark.slow
def test_positions_that_are_split_change_nothing(tmp_path):
    _learn_the_same_where_positions_are_split("qwen3-moe", tmp_path)


@pytest.mark.slow
def test_keys_and_values_that_go_around_a_ring_change_nothing(tmp_path):
    """On more devices of context than there are heads of keys for."""
    flags = {"mesh": "context=4,model=2", "context_attention": "ring"}
    _learn_the_same_where_positions_are_split("llama", tmp_path, **flags)


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(n for n, x in FAMILIES.items() if CAUSAL <= x.provides))
def test_a_ring_changes_nothing_in_any_family(model, tmp_path):
    rates = {"dropout": 0.0} if FAMILIES[model].dropout else {}
    _learn_the_same_where_positions_are_split(model, tmp_path, context_attention="ring", **rates)


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(FAMILIES.keys() - {"vit"}))
def test_positions_that_are_split_change_nothing_in_any_family(model, tmp_path):
    flags = {"mesh": "fsdp=2,context=2"} if model == "qwen2" else {}  # which has 14 heads
    _learn_the_same_where_positions_are_split(model, tmp_path, **flags)


@pytest.mark.long
@pytest.mark.parametrize("model", sorted(name for name, one in FAMILIES.items() if one.alike))
def test_layers_in_stages_change_nothing(model, tmp_path):
    beside = "expert=2" if FAMILIES[model].routed else "model=2"
    request = Request.from_flags("my-project", model, mesh=f"stage=2,data=2,{beside}")
    folder = create_project(request, tmp_path)
    code, out, err = run(f"{sys.executable} -m pytest -q -k unsharded", folder)
    assert code == 0 and "2 passed" in out, out + err


@pytest.mark.long
def test_a_run_in_bfloat16_goes_on_in_another_number_of_stages(tmp_path):
    """It learns what it would have, on more stages and on none."""
    request = Request.from_flags("my-project", "llama", mesh="stage=4")
    folder = create_project(request, tmp_path)
    flags = "--preset tiny --dtype bfloat16 --steps 4 --save-every 2 --log-every 1 --workdir"

    def losses(name, mesh):
        program = f"{sys.executable} -m my_project.train {flags} {name} {mesh} --virtual-devices 4"
        code, out, err = run(program, folder)
        assert code == 0, out + err
        return out + err, [row["loss"] for row in metrics(folder / name) if row["step"] > 2]

    _, expected = losses("first", "")
    shutil.rmtree(folder / "first/checkpoints/4")
    (folder / "first/metrics.jsonl").unlink()
    for mesh in ("stage=2,data=2", "data=4"):
        shutil.copytree(folder / "first", folder / mesh)
        out, found = losses(mesh, f"--mesh {mesh}")
        assert "resuming from step 2" in out and len(found) == 2
        assert found == pytest.approx(expected, rel=1e-3)


PADDED = """
import jax
jax.config.update("jax_num_cpu_devices", 6)
from my_project.config import TINY
from my_project.sharding import AXES
from my_project.steps import build
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.layout.specs import cut
from my_project.runtime.base.state import flatten

with jax.set_mesh(make_mesh(AXES)):
    steps = build(TINY)
    params = steps.init(jax.random.key(0)).params
    up = params["layers"]["mlp"]["up"]["kernel"]
    own = cut(flatten(params), steps.shapes)["layers/mlp/up/kernel"]
    print(up.shape, up.addressable_shards[0].data.shape, own.shape, abs(up[..., 512:]).max())
"""


@pytest.mark.slow
def test_what_does_not_divide_is_padded_in_memory_only(tmp_path):
    folder = make(tmp_path, shards="6")
    code, out, err = run(f"{sys.executable} -c '{PADDED}'", folder)
    assert out == "(2, 128, 516) (2, 128, 86) (2, 128, 512) 0.0\n", err


MOMENTS = """
import jax
jax.config.update("jax_num_cpu_devices", 4)
from my_project.config import TINY
from my_project.sharding import AXES
from my_project.steps import build
from my_project.runtime.layout.mesh import make_mesh

def held(tree):
    return sum(x.addressable_shards[0].data.nbytes for x in jax.tree.leaves(tree))

with jax.set_mesh(make_mesh(AXES)):
    state = build(TINY).init(jax.random.key(0))
    print(held(state.opt_state) / held(state.params))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("zero", "share"), [(0, 2), (1, 0.5)])
def test_zero_splits_the_moments_over_data(zero, share, tmp_path):
    folder = make(tmp_path, mesh="data=4", zero=zero)
    code, out, err = run(f"{sys.executable} -c '{MOMENTS}'", folder)
    assert float(out) == pytest.approx(share, rel=1e-3), err


def test_zero_splits_a_padded_vocabulary_by_its_features(tmp_path):
    """50257 words over 4 are 12565 each, which no number of data's devices may divide."""
    request = Request.from_flags("my-project", "gpt2", mesh="model=4", zero=1)
    files, _, plan = texts(request)
    moments = dict(zip((p.path for p in plan.parameters), plan.moments, strict=True))
    assert moments["embed/embedding"] == P("model", ("fsdp", "data"))
    table = files["my_project/sharding.py"].partition("\nMOMENTS = ")[2]
    assert table.index('"embed/embedding": P("model", ("fsdp", "data"))') < table.index("\n}")


@pytest.mark.parametrize("model", ["mixtral", "gemma2", "t5"])
def test_all_activations_have_a_layout_where_the_sequence_is_split(model, tmp_path):
    flags = {"mesh": "fsdp=2,model=2", "sequence_parallel": True}
    folder = create_project(Request.from_flags("my-project", model, **flags), tmp_path)
    package = folder / folder.name.replace("-", "_")
    named = re.findall(r'lay_out\([^\n]*?"(\w+)"\)', (package / "model.py").read_text())
    table = (package / "sharding.py").read_text()
    assert "x_BSD" in named and [name for name in named if f'"{name}": P(' not in table] == []
