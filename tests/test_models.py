"""What --model names: families, their known sizes, and checkpoints in Hugging Face's format."""

import json
import math
import pkgutil
from dataclasses import replace
from importlib import import_module

import pytest

from redco_new.cli import redco_app, run
from redco_new.errors import RedcoError
from redco_new.models.decoders import DecoderQuirks
from redco_new.models import families
from redco_new.models.families import FAMILIES
from redco_new.models.family import Family
from redco_new.models.find import find_model, make_model
from redco_new.models.hf_config import (
    config_class,
    printed_keys,
    read_transformers,
)
from redco_new.models.recipes import RECIPES, choose_recipe, possible_recipes
from redco_new.render import assets

SIZES = [(family.name, size) for family in FAMILIES.values() for size in family.sizes]
LLAMA = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
}


def test_each_module_of_families_defines_one():
    for info in pkgutil.iter_modules(families.__path__):
        module = import_module(f"{families.__name__}.{info.name}")
        defined = [value for value in vars(module).values() if isinstance(value, Family)]
        assert (
            defined
        ), f"{info.name} defines no Family: what families share lies outside of families"
        assert all(FAMILIES[family.name] is family for family in defined), "two have one name"


def test_each_folder_of_templates_is_of_a_family():
    folders = {path.name for path in (assets.templates() / "models").iterdir()} - {"shared"}
    assert folders == {family.template for family in FAMILIES.values()}


def write(folder, **config):
    """A checkpoint's folder with this config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_tiny_models_are_of_the_same_kind(name, size):
    for shards in (1, 2, 3, 4, 8, 64):
        model = find_model(name, size, shards)
        full, tiny = model.full.sizes, model.tiny.sizes
        assert model.tiny.quirks == model.full.quirks
        assert tiny.keys() == full.keys()
        assert math.prod(v for k, v in tiny.items() if k.endswith("_dim")) < 2**40
        for dim in ("vocab_size", "num_heads", "num_kv_heads", "mlp_dim"):
            if dim in full and full[dim] % shards == 0:
                assert tiny[dim] % shards == 0, (dim, shards)


def test_a_folder(tmp_path):
    model = find_model(write(tmp_path / "mine", **LLAMA, rope_theta=5e5), "", 2)
    assert model.family.name == "llama" and model.title == "Llama (mine)"
    assert model.tokenizer == str(tmp_path / "mine")
    sizes = {"num_kv_heads": 2, "head_dim": 8, "rope_theta": 5e5, "num_layers": 3}
    assert model.full.sizes.items() >= sizes.items()
    assert model.full.quirks == DecoderQuirks(grouped=True)


REFUSED = {
    "rope_type is 'su', and redco has default, dynamic, linear, llama3, longrope, yarn": {
        "rope_scaling": {"rope_type": "su", "factor": 4.0},
        "max_position_embeddings": 8192,
    },
    "hidden_act is 'gelu', and redco's llama has 'silu'": {"hidden_act": "gelu"},
    "is a mamba, which redco has no template of; there are bart, ": {"model_type": "mamba"},
    "is a nonsense, which redco has no template of": {"model_type": "nonsense"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_no_family_honours_is_named(tmp_path, message):
    with pytest.raises(RedcoError) as error:
        find_model(write(tmp_path, **LLAMA | REFUSED[message]), "", 1)
    assert message in str(error.value) and str(tmp_path) in str(error.value)


def test_bad_names(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name, size, message in (
        ("lama", "", "--model: unknown model 'lama'; did you mean llama"),
        ("llama", "3.1-7b", "--size: unknown size '3.1-7b'; did you mean 3.1-70b"),
        (str(tmp_path), "", "has no config.json; give a checkpoint's folder"),
        (write(tmp_path / "a", vocab_size=3), "", "config.json has no model_type; add it"),
        (write(tmp_path / "b", **LLAMA), "7b", "has its own size; leave it out"),
        ("./nowhere", "", "/nowhere has no config.json"),
        ("org/name", "", "--model: org/name: "),
    ):
        with pytest.raises(RedcoError) as error:
            find_model(name, size, 1)
        assert message in str(error.value)


def test_the_table(capsys):
    assert run(redco_app, "redco", ["models", "gpt-j", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "model": "gpt-j",
        "size": "6b",
        "parameters": 6_050_882_784,
        "training_bytes": 16 * 6_050_882_784,
        "recipe": "lm",
        "checkpoint": "EleutherAI/gpt-j-6b",
    }
    assert run(redco_app, "redco", ["models", "gpt-j"]) == 0
    assert "6.05 billion" in capsys.readouterr().out
    assert run(redco_app, "redco", ["models", "gptj"]) == 2
    assert "did you mean gpt-j" in capsys.readouterr().err


def test_a_recipe_is_one_whose_needs_the_model_meets(monkeypatch):
    gpt2, bert = FAMILIES["gpt2"], FAMILIES["bert"]
    causal = possible_recipes(gpt2)
    assert {"lm", "sft"} < {*causal} and causal[0] == "lm" and "mlm" not in causal
    masked = possible_recipes(bert)
    assert masked == ["mlm", "classify-text", "classify-tokens"]
    assert choose_recipe(bert, "", "bert") is choose_recipe(bert, "mlm", "bert") is RECIPES["mlm"]
    with pytest.raises(
        RedcoError,
        match=f"gpt2 is trained by the recipes {', '.join(causal)}; leave it out, or choose lm or ",
    ):
        choose_recipe(gpt2, "mlm", "gpt2")
    monkeypatch.setitem(RECIPES, "distil", replace(RECIPES["lm"], name="distil"))
    assert possible_recipes(gpt2) == [*causal, "distil"] and possible_recipes(bert) == masked
    assert choose_recipe(gpt2, "", "gpt2").name == "lm"
    assert choose_recipe(gpt2, "distil", "gpt2").name == "distil"
    with pytest.raises(RedcoError, match=", distil; leave it out, or choose lm or "):
        choose_recipe(gpt2, "mlm", "gpt2")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_data_of_families_is_that_of_transformers(family):
    theirs = config_class(family.model_type)
    assert vars(read_transformers(theirs(), {})).items() >= family.defaults.items()
    assert printed_keys(read_transformers(theirs(), {}), set()).keys() == family.defaults.keys()
    for name, size in family.sizes.items():
        # As in the config.json of a checkpoint that ties nothing: transformers writes the key over.
        untied = {"tie_word_embeddings": False} if "scale_decoder_outputs" in size.config else {}
        config = read_transformers(theirs(**size.config | untied), size.config)
        model = make_model(family, f"{family.title} {name}", config, size.tokenizer, 4)
        assert model == find_model(family.name, name, 4), name
