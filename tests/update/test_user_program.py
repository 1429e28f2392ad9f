"""The user's model is read from the files of the project, and what is wrong in them is told."""

import shutil
import sys
from types import SimpleNamespace

import jax
import pytest
from generated import ROOT

from redco_runtime.base.tensors import Tensor

from redco_new.project.create import create_project
from redco_new.generate.read import read_model
from redco_new.render.template import open_template
from redco_new.errors import RedcoError
from redco_new.request import Request
from redco_new.update.regenerate import Regeneration
from redco_new.update.user_model import ProjectPackage, import_package, user_program
from redco_new.update.weights_notes import weights_notes

MODEL, PIPELINE, STEPS = (f"my_project/{name}.py" for name in ("model", "pipeline", "steps"))


@pytest.fixture
def project(tmp_path):
    """A function that makes edits, path -> (old, new) pairs, and gives the project's folder."""
    folder = tmp_path / "my-project"
    shutil.copytree(ROOT / "golden/gpt-j-4/project", folder)

    def edited(**edits):
        for module, pairs in edits.items():
            path = folder / "my_project" / f"{module}.py"
            text = path.read_text()
            for old, new in pairs:
                assert old in text
                text = text.replace(old, new)
            path.write_text(text)
        return folder

    return edited


@pytest.fixture(scope="module")
def program():
    request = Request.from_flags("my-project", "gpt-j", shards="4")
    with open_template() as template:
        return read_model(request, template).program()


def read(folder, program):
    """(paths of the parameters, keys of the batch, notes) of the user's model and loss."""
    with import_package(folder, "my_project") as package:
        found, notes = user_program(package, program, "GPTJ")
        jax.eval_shape(found.forward, found.params, found.batch)
        paths = {jax.tree_util.keystr(p) for p, _ in jax.tree.leaves_with_path(found.params)}
        return paths, set(found.batch), [*notes, *weights_notes(package, found)]


def test_as_it_was_made(project, program):
    before = set(sys.modules)
    paths, batch, notes = read(project(), program)
    assert (len(paths), batch, notes) == (15, {"input_ids", "mask"}, [])
    assert "my_project.model" not in sys.modules
    assert before <= set(sys.modules)


WIDER = [
    (
        "        self.down =",
        "        self.extra = nnx.Param(jnp.ones((1, 1, config.mlp_dim)))\n        self.down =",
    ),
    ('u_BSF = lay_out(self.up(h_BSD), "u_BSF")', "u_BSF = self.up(h_BSD) * self.extra"),
]
NO_BIAS = [("use_bias=True)", "use_bias=False)")]


def test_parameters_of_the_users_model(project, program):
    paths, _, notes = read(project(model=WIDER), program)
    assert "['layers']['mlp']['extra']" in paths
    where = "tensors() in my_project/weights.py"
    todo = "`export` needs one, and a checkpoint of `--init` gives them nothing"
    assert notes == [f"{where} has no name for layers/mlp/extra: {todo}"]


def test_a_parameter_that_is_gone(project, program):
    _, _, notes = read(project(model=NO_BIAS), program)
    assert notes[0].startswith("tensors() in my_project/weights.py names head/bias, layers/mlp/")


@pytest.mark.parametrize(
    ("recipe", "lora"),
    [("dpo", {}), ("reward", {"lora": "rank=2"}), ("grpo", {"lora": "rank=2,base=nf4"})],
)
def test_models_beside_each_other_and_adapters_have_their_names(tmp_path, recipe, lora):
    """Files have one model of each branch, kernels whole, and adapters apart: nothing to say of these."""
    request = Request.from_flags("my-project", "gpt2", recipe=recipe, **lora)
    folder = create_project(request, tmp_path)
    with open_template() as template:
        program = read_model(request, template).program()
    with import_package(folder, "my_project") as package:
        yours, _ = user_program(package, program, "GPT2")
        assert weights_notes(package, yours) == []
        package.weights.tensors = lambda config: {}
        (note,) = weights_notes(package, yours)
    assert "embed/embedding" in note
    assert "lora_a" not in note and "layers/mlp/up/kernel" in note


def test_a_kernel_that_is_stored_as_several_is_one_of_the_model():
    """A printed class whose q, k and v are one product: its files' names are of parts, its model has the whole."""
    parts = {f"attn/qkv/kernel/{i}": Tensor("attn.qkv.weight") for i in range(3)}
    weights = SimpleNamespace(
        APART={"attn/qkv/kernel": (1, (8, 8, 8))}, tensors=lambda config: parts
    )
    config = SimpleNamespace(PRESETS={"full": SimpleNamespace(model=None)})
    package = ProjectPackage("my_project", None, config, SimpleNamespace(), weights, "")
    program = SimpleNamespace(params={"attn": {"qkv": {"kernel": 0}}}, variables={})
    assert weights_notes(package, program) == []
    weights.APART = {}
    assert len(weights_notes(package, program)) == 2


def test_a_variable_that_files_have_is_one_of_the_model(tmp_path):
    request = Request.from_flags("my-project", "bart")
    folder = create_project(request, tmp_path)
    with open_template() as template:
        program = read_model(request, template).program()
    with import_package(folder, "my_project") as package:
        assert weights_notes(package, user_program(package, program, "BART")[0]) == []


def test_the_users_own_batch(project, program):
    edits = [
        ("return {name: np", 'return {name.replace("mask", "counts"): np'),
        ('["mask"]', '["counts"]'),
    ]
    _, batch, notes = read(project(pipeline=edits), program)
    assert (batch, notes) == ({"input_ids", "counts"}, [])


def test_a_loss_that_cannot_be_traced(project, program):
    edits = [('jnp.roll(batch["input_ids"]', 'jnp.roll(batch["ids"]')]
    _, batch, [note] = read(project(pipeline=edits), program)
    assert batch == {"input_ids", "mask"}
    assert "the recipe's own loss, since yours cannot be traced: " in note
    assert '`return jnp.roll(batch["ids"]' in note and "KeyError" in note


def test_a_class_with_another_name(project, program):
    folder = project(model=[("GPTJ(nnx", "Talker(nnx")])
    with pytest.raises(
        RedcoError, match="model.py: it defines no GPTJ, which steps.py builds; name"
    ):
        read(folder, program)
    folder = project(steps=[("GPTJ", "Talker")])
    assert len(read(folder, program)[0]) == 15


FAULTS = {
    "syntax": (
        [("import jax\n", "import jax\nx = = 1\n")],
        "model.py:12: it cannot be imported: Syn",
    ),
    "missing": (
        [("import jax\n", "import nowhere\n")],
        "ModuleNotFoundError.*install what it needs",
    ),
    "exit": ([("import jax\n", "raise SystemExit(3)\n")], "it cannot be imported: SystemExit: 3"),
    "shape": ([("self.up(h_BSD)", "self.up(h_BSD[..., 1:])")], "it cannot be traced: .*; mend"),
}


@pytest.mark.parametrize("edits, message", FAULTS.values(), ids=FAULTS)
def test_a_model_that_does_not_run(project, program, edits, message):
    with pytest.raises(RedcoError, match=message) as found:
        read(project(model=edits), program)
    assert "my_project/model.py" in found.value.where


def test_a_module_that_is_missing(project, program):
    folder = project()
    (folder / MODEL).unlink()
    with pytest.raises(RedcoError) as error:
        read(folder, program)
    message = f"{MODEL}: is missing; bring it back: redco update --restore {MODEL}"
    assert str(error.value) == message


def test_no_full_preset(project, program):
    with pytest.raises(RedcoError, match=r"config.py: it has no PRESETS\['full'\]"):
        read(project(config=[('{"full": Config(), ', "{")]), program)


def test_the_mesh_of_the_trial_is_that_of_the_users_model(project):
    sizes = [("num_heads: int = 16", "num_heads: int = 6"), ("int = 4096", "int = 1536")]
    request = Request.from_flags("my-project", "gpt-j", shards="4")
    with open_template() as template:
        derived = Regeneration(request, template)
        assert derived.mesh == {"data": 2, "fsdp": 1, "model": 4}
        files, _ = derived.of_own_model(project(model=sizes))
        assert derived.mesh == {"data": 2, "fsdp": 1, "model_1": 2, "model_2": 2}
        assert '"model_2": 2' in files["my_project/sharding.py"]
