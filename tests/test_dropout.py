"""Dropout as it is asked for: by a checkpoint, by --dropout, by a project that was made before."""

import json

import pytest

from redco_new.errors import RedcoError
from redco_new.models.dropout import dropout_notes, dropout_rates, with_dropout
from redco_new.models.find import find_model
from redco_new.models.recipes import RECIPES
from redco_new.request import Request

GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "attn_pdrop": 0.0}


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "mine").mkdir()

    def write(**config):
        (tmp_path / "mine/config.json").write_text(json.dumps(config))
        return str(tmp_path / "mine")

    return write


def rates(name, recipe="lm", **flags):
    """(the rates of a model of that name, what its user is told)."""
    request, one = Request.from_flags("a", name, **flags), RECIPES[recipe]
    model = with_dropout(find_model(name, "", 1), request, one)
    assert model.full.sizes.items() >= {k: model.tiny.sizes[k] for k in find_drops(model)}.items()
    return find_drops(model), dropout_notes(model, request, one)


def find_drops(model):
    return {key: rate for key, rate in model.full.sizes.items() if "drop" in key}


@pytest.mark.parametrize(
    ("source", "rates"),
    [
        ({"model_type": "llama"}, {}),
        ({"model_type": "llama", "attention_dropout": 0.2}, {"attention_dropout": 0.2}),
        ({"model_type": "gpt2", "attn_pdrop": 0}, {"embd_pdrop": 0.1, "resid_pdrop": 0.1}),
        ({"model_type": "t5", "dropout_rate": None}, {}),
        ({"model_type": "opt"}, {"dropout": 0.1}),
        ({"model_type": "mixtral", "router_jitter_noise": 0.2}, {"router_jitter_noise": 0.2}),
    ],
)
def test_dropout_that_a_checkpoint_asks_for_is_known(source, rates):
    """As its class has it where config.json is silent; that of heads that are not there is left out."""
    assert dropout_rates(source) == rates


def test_a_checkpoint_drops_as_its_config_says_and_a_size_by_name_not_at_all(checkpoint):
    assert rates(checkpoint(**GPT2)) == ({"embd_pdrop": 0.1, "resid_pdrop": 0.1}, [])
    assert rates("gpt2") == ({}, [])


def test_the_flag_is_the_rate_of_what_transformers_drops(checkpoint):
    names = ("embd_pdrop", "resid_pdrop", "attn_pdrop")
    assert rates("gpt2", dropout="0.2")[0] == dict.fromkeys(names, 0.2)
    assert rates(checkpoint(**GPT2), dropout="0.3")[0] == dict.fromkeys(names, 0.3)
    assert rates(checkpoint(**GPT2), dropout="0") == ({}, [])
    assert rates("bart", "seq2seq", dropout="0.2")[0] == {"dropout": 0.2}
    assert rates("vit", "image", dropout="0.2")[0] == {"hidden_dropout_prob": 0.2}


@pytest.mark.parametrize("recipe", ["dpo", "reward", "grpo", "distillation"])
def test_recipes_that_compare_models_drop_nothing_and_say_so(checkpoint, recipe):
    found, (note,) = rates(checkpoint(**GPT2), recipe)
    assert found == {}
    assert "(embd_pdrop 0.1, resid_pdrop 0.1)" in note and f"the recipe {recipe} compares" in note
    with pytest.raises(RedcoError, match=f"--dropout: the recipe {recipe} compares"):
        rates("gpt2", recipe, dropout="0.1")


def test_rates_that_a_family_has_not_are_said(checkpoint):
    llama = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 2}
    found, (note,) = rates(checkpoint(**llama, attention_dropout=0.2))
    assert found == {} and "(attention_dropout 0.2), and model.py has none" in note
    opt = {"model_type": "opt", "hidden_size": 32, "num_attention_heads": 2}
    found, (note,) = rates(checkpoint(**opt, layerdrop=0.2))
    assert found == {"dropout": 0.1} and "(layerdrop 0.2), and model.py has none" in note


@pytest.mark.parametrize(
    ("rate", "message"),
    [("1", "'1' is no share"), ("-.1", "no share"), ("nan", "no share"), ("much", "no share")],
)
def test_a_rate_that_is_none_is_refused(rate, message):
    with pytest.raises(RedcoError, match=message):
        Request.from_flags("a", "gpt2", dropout=rate)


def test_what_cannot_drop_is_refused(checkpoint):
    with pytest.raises(RedcoError, match="Llama .* is a model without dropout; .* gpt2, opt, t5"):
        rates("llama", dropout="0.1")
    with pytest.raises(RedcoError, match="resid_pdrop is 1.5, and not a number from 0 to below 1"):
        rates(checkpoint(**GPT2 | {"resid_pdrop": 1.5}))


BERT = {"model_type": "bert", "hidden_size": 32, "num_attention_heads": 2}
NAMES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")


@pytest.mark.parametrize(
    ("own", "rate"), [({}, 0.1), ({"classifier_dropout": 0.3}, 0.3), ({"classifier_dropout": 0}, 0)]
)
def test_a_head_for_classes_drops_as_its_config_says_else_as_layers_do(checkpoint, own, rate):
    layers = dict.fromkeys(NAMES[:2], 0.1)
    head = {NAMES[2]: rate} if rate else {}
    model = checkpoint(**BERT | own)
    assert rates(model, "classify-text") == (layers | head, [])
    assert rates(model, "mlm") == (layers, [])
    assert rates("bert", "classify-tokens", dropout="0.2")[0] == dict.fromkeys(NAMES, 0.2)
    with pytest.raises(RedcoError, match="classifier_dropout is -0.5, and not a number"):
        rates(checkpoint(**BERT | {"classifier_dropout": -0.5}), "classify-text")


def test_redco_toml_says_what_was_asked():
    assert "dropout" not in Request.from_flags("a", "gpt2").to_toml()
    for model, rate in (("gpt2", "0.1"), ("./mine", "config"), ("./mine", "0")):
        request = Request.from_flags("a", model, dropout=rate)
        assert "dropout = " in request.to_toml()
        assert Request.from_toml(request.to_toml()) == request
