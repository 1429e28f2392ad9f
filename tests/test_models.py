"""What --model names: families, their known sizes, and checkpoints in Hugging Face's format."""

import json
import math

import pytest

from redco_new.render import assets
from redco_new.cli import redco_app, run
from redco_new.errors import RedcoError
from redco_new.inspect import catalog
from redco_new.models.families import FAMILIES
from redco_new.models.find import find_model

SIZES = [(family.name, size) for family in FAMILIES.values() for size in family.sizes]
# As their authors publish them.
PUBLISHED = {
    ("gpt-j", "6b"): 6_050_882_784,
    ("llama", "7b"): 6_738_415_616,
    ("llama", "3.1-8b"): 8_030_261_248,
    ("llama", "3.2-1b"): 1_235_814_400,
    ("mistral", "7b-v0.1"): 7_241_732_096,
    ("qwen2", "2.5-7b"): 7_615_616_512,
    ("qwen3", "0.6b"): 596_049_920,
    ("phi-3", "mini-4k"): 3_821_079_552,
    ("gemma2", "2b"): 2_614_341_888,
    ("gemma3", "1b"): 999_885_952,
    ("mixtral", "8x7b"): 46_702_792_704,
    ("qwen3-moe", "30b-a3b"): 30_532_122_624,
}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
}


def write(folder, **config):
    """A checkpoint's folder with this config.json."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(("name", "size"), PUBLISHED)
def test_known_sizes_have_the_published_parameters(name, size):
    found = catalog.count_parameters(FAMILIES[name], size, assets.templates(), {})
    assert found == PUBLISHED[name, size]


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
    assert model.full.quirks["grouped"] and not model.full.quirks["tied"]


REFUSED = {
    "rope_type is 'yarn', and redco has default, linear, llama3, longrope": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "max_position_embeddings": 8192,
    },
    "hidden_act is 'gelu', and redco's llama has 'silu'": {"hidden_act": "gelu"},
    "is a mamba, which redco has no template of; there are gpt-j, gpt2": {"model_type": "mamba"},
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
