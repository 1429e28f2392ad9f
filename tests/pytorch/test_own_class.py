"""A project of the user's own torch.nn.Module: printed once, without PyTorch from then on; and bad input."""

import json
import shutil
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from redco_new.errors import RedcoError
from redco_new.generate.hub_class import as_class
from redco_new.generate.printed import read_printed
from redco_new.project.create import create_project
from redco_new.render.template import open_template
from redco_new.request import Request
from redco_new.request.own_class import Input
from redco_new.update.printed import with_printed
from redco_new.update.run import preview_update

HERE = Path(__file__).parent
TOML = """\
[model]
features = 24
width = 16
drop = 0.1

[inputs]
x = {shape = ["B", 24]}
"""
TAGS = """\
from torch import nn


class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.out = nn.Linear(16, 9)

    def forward(self, ids):
        return {"out": self.out(self.embed(ids))}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of nets_projects.py, and of a project of TorchNet, net, that no test changes."""
    folder = tmp_path_factory.mktemp("torch")
    shutil.copy(HERE / "nets_projects.py", folder)
    (folder / "net.toml").write_text(TOML)
    create_project(request(folder, "net"), folder)
    return folder


@pytest.fixture
def project(place, tmp_path):
    """A copy of the project, beside its class, in a session where PyTorch cannot be imported."""
    shutil.copy(place / "nets_projects.py", tmp_path)
    return Path(shutil.copytree(place / "net", tmp_path / "net"))


@pytest.fixture
def no_torch(monkeypatch):
    """PyTorch is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


def request(folder, name, model="TorchNet", **flags):
    asked = {"mesh": "data=2,model=2", "recipe": "classify", "config": str(folder / "net.toml")}
    model = str(folder / f"nets_projects.py:{model}")
    return Request.from_flags(name, model, folder=folder / name, **asked | flags)


def edit(path, old, new):
    """Change the first `old` of a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def said(error):
    return str(error.value)


def test_the_project_has_the_class_and_no_pytorch(place):
    files = {path: (place / "net" / path).read_text() for path in ("redco.toml", "pyproject.toml")}
    model = (place / "net/net/model.py").read_text()
    assert "class TorchNet(nnx.Module):" in model and "torch." not in model.partition('"""\n')[2]
    assert "torch" not in files["pyproject.toml"] and "transformers" not in files["pyproject.toml"]
    asked = Request.from_toml(files["redco.toml"], folder=place / "net")
    assert asked.via == "torch" and asked.own.inputs == {"x": Input((24,))}
    assert '["logits"]' in (place / "net/net/pipeline.py").read_text()
    weights = (place / "net/net/weights.py").read_text()
    assert 'Tensor("start.weight", (1, 0))' in weights


def test_what_it_drops_follows_each_example_whatever_the_micro_batches(place):
    steps = (place / "net/net/steps.py").read_text()
    assert "drop_by_example(model, batch, key)" in steps and "with_keys(batch, key)" in steps


def test_an_update_needs_no_pytorch_and_changes_nothing(project, no_torch):
    assert preview_update(project, {}).changed_files == {}


def test_an_edited_model_is_planned_anew_and_never_printed_again(project, no_torch):
    edit(project / "net/model.py", "width: int = 16", "width: int = 48")
    plan = preview_update(project, {"shards": "4"})
    assert "net/sharding.py" in plan.changed_files and "net/model.py" not in plan.changed_files
    assert b"= 16" in plan.renderings["net/model.py"]  # what was printed stays its side of a merge


def test_the_model_is_printed_again_where_it_is_asked_for(project):
    model = project / "net/model.py"
    edit(model, '"""', '"""Mine. ')
    edit(project / "redco.toml", "width = 16", "width = 24")
    with pytest.raises(RedcoError) as error:
        preview_update(project, {})
    assert said(error) == (
        "redco.toml: [model]: model.py was printed with other values of width; change config.py, or "
        "print it again: redco update --print-model"
    )
    plan = preview_update(project, {}, print_model=True)
    assert plan.changed_files["net/model.py"].decode() == model.read_text().replace("= 16", "= 24")
    assert not plan.conflicts


def test_without_its_model_a_project_is_not_updated(project):
    (project / "net/model.py").unlink()
    with pytest.raises(RedcoError) as error:
        preview_update(project, {})
    path = "net/model.py"
    assert said(error) == f"{path}: is missing; bring it back: redco update --restore {path}"


def test_print_model_is_for_a_printed_one(tmp_path):
    place = create_project(Request.from_flags("gpt", "gpt-j", folder=tmp_path / "gpt"), tmp_path)
    with pytest.raises(RedcoError, match="^--print-model: model.py was not printed from a PyTorch"):
        preview_update(place, {}, print_model=True)


def test_the_class_under_another_name_is_told(project, no_torch):
    edit(project / "net/model.py", "class TorchNet(", "class Other(")
    with pytest.raises(
        RedcoError, match="^net/model.py: it defines no class TorchNet of nnx.Module"
    ):
        preview_update(project, {})


def test_without_pytorch_a_class_of_it_is_refused(place, no_torch, tmp_path):
    with pytest.raises(RedcoError) as error:
        create_project(request(place, "other"), tmp_path)
    assert said(error) == (
        "--model: a PyTorch class needs redco-new[torch] (torch 2.13); pip install 'redco-new[torch]'"
    )
    assert not [*tmp_path.iterdir()]


def test_another_pytorch_is_refused(place, monkeypatch, tmp_path):
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda x: "2.9.1" if x == "torch" else version(x))
    with pytest.raises(RedcoError, match=r"\(torch 2.13\), and torch 2.9.1 is here; pip install"):
        create_project(request(place, "other"), tmp_path)


@pytest.mark.parametrize(
    ("flags", "where"),
    [
        ({"size": "7b"}, "--size: TorchNet has the size that its arguments say"),
        (
            {"sequence_parallel": True},
            "--sequence-parallel: TorchNet does not name its activations",
        ),
        ({"lora": "rank=4"}, "--lora: "),
        ({"recipe": "sft"}, "--recipe: there is no recipe 'sft' of a class of your own"),
        ({"recipe": ""}, "--recipe: "),
        ({"via": "tensorflow"}, "--via: 'tensorflow' is no way to a model; give torch"),
        ({"dtype": "bfloat16"}, "--dtype: "),
    ],
)
def test_what_a_class_cannot_have_is_named(place, tmp_path, flags, where):
    with pytest.raises(RedcoError) as error:
        create_project(request(place, "other", **flags), tmp_path)
    assert said(error).startswith(where) and not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("classify", "of 8 rows, Tags makes out (8, 12, 9), and no logits of shape (B, classes); "),
        ("seq2seq", "Tags has 1 inputs of ids, of shape (B, S) and int32; it needs 2; "),
    ],
)
def test_outputs_that_a_recipe_does_not_train_are_told_before_they_are_printed(
    tmp_path, monkeypatch, recipe, message
):
    monkeypatch.setattr("redco_new.pytorch.make._print", lambda *_: pytest.fail("printed"))
    (tmp_path / "tags.py").write_text(TAGS)
    (tmp_path / "tags.toml").write_text(
        '[inputs]\nids = {shape = ["B", 12], dtype = "int32", below = 50}\n'
    )
    asked = Request.from_flags(
        "tags",
        str(tmp_path / "tags.py:Tags"),
        recipe=recipe,
        folder=tmp_path / "tags",
        config=str(tmp_path / "tags.toml"),
    )
    with pytest.raises(RedcoError) as error:
        create_project(asked, tmp_path)
    assert said(error).startswith(f"--recipe {recipe}: {message}")


def test_a_class_of_flax_goes_not_via_pytorch(tmp_path):
    (tmp_path / "net.py").write_text("from flax import nnx\n\n\nclass Net(nnx.Module):\n    pass\n")
    asked = Request.from_flags(
        "net", str(tmp_path / "net.py:Net"), recipe="classify", folder=tmp_path / "net", via="torch"
    )
    with pytest.raises(RedcoError, match="^--via: Net is no torch.nn.Module"):
        create_project(asked, tmp_path)


CHECKPOINT = {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": None}, "architectures is None, and names no class; correct it"),
        ({"architectures": ["os.system"]}, "architectures is ['os.system'], and names no class"),
        (
            {"architectures": ["LlavaForConditionalGeneration"], "vision_config": {}},
            "LlavaForConditionalGeneration reads images beside texts, which no recipe trains; give a",
        ),
        ({"architectures": ["NoSuch"]}, "transformers has no class NoSuch of PyTorch"),
        ({"architectures": ["pipeline"]}, "transformers has no class pipeline of PyTorch"),
        (
            {"architectures": ["Mine"], "auto_map": {"AutoModel": "m.Mine"}},
            "Mine is code of the checkpoint's own (auto_map), which is not run; read it, and give its "
            "file: --model FILE.py:Mine",
        ),
    ],
)
def test_what_no_class_of_transformers_is_is_named(tmp_path, changes, message):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CHECKPOINT | changes))
    asked = Request.from_flags("net", str(folder), folder=tmp_path / "net")
    with pytest.raises(RedcoError) as error:
        create_project(asked, tmp_path)
    assert f": {message}" in said(error) and not (tmp_path / "net").exists()


def test_a_checkpoint_is_a_class_and_its_arguments(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CHECKPOINT | {"vocab_size": 99, "junk": 1}))
    asked = as_class(Request.from_flags("net", str(tmp_path), folder=tmp_path / "net"))
    assert asked.model == "transformers:MambaForCausalLM"
    assert asked.own.arguments == {"hidden_size": 32, "vocab_size": 99}
    assert Request.from_toml(asked.to_toml(), folder=tmp_path / "net").own == asked.own


def test_a_family_is_a_class_too():
    asked = as_class(Request.from_flags("net", "llama", size="3.2-1b", via="torch"))
    assert asked.model == "transformers:LlamaForCausalLM" and not asked.size
    sizes = {"hidden_size": 2048, "num_hidden_layers": 16}
    assert asked.own.arguments.items() >= sizes.items()


def test_a_recipe_that_compares_what_models_say_drops_nothing_and_says_so():
    project = HERE.parents[1] / "golden/torch-qwen2-moe/project"
    asked = Request.from_toml((project / "redco.toml").read_text(), folder=project)
    asked = with_printed(replace(asked, recipe="dpo"), lambda path: (project / path).read_bytes())
    field = "    drop: float = 0.1\n    dtype: str"
    texts = {name: x.replace("    dtype: str", field) for name, x in asked.printed.items()}
    with open_template() as template:
        design = read_printed(replace(asked, printed=texts), template)
    both = [*design.model.sizes.values(), design.model.tiny["model"]]
    assert [x["drop"] for x in both] == [0.0, 0.0]
    note = "the recipe dpo compares what models say, and trains without dropout: drop in config.py"
    assert note in design.notes
