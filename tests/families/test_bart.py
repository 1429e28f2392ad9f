"""BART against transformers' PyTorch class."""

import pytest
from families import encdec
from families.parity import make_pair
from families.reference import Reference

from redco_new.errors import RedcoError
from redco_new.models.families.bart import FAMILY
from redco_new.models.hf_config import config_class

pytestmark = pytest.mark.slow  # searches with many beams; test_parity has one of each kind

SMALL = {
    "vocab_size": 107,
    "d_model": 48,
    "encoder_ffn_dim": 80,
    "decoder_ffn_dim": 80,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "max_position_embeddings": 40,
}
FORMS = {
    "plain": {"forced_eos_token_id": None},
    "scaled": {
        "scale_embedding": True,
        "activation_function": "gelu_new",
        "forced_bos_token_id": 0,
    },
}


def randomise(reference):
    """A bias that PyTorch has as a buffer."""
    reference.final_logits_bias.normal_(0.0, 0.1)


def vary(reference):
    """Weights that make a next token seldom be the last one again."""
    randomise(reference)
    reference.model.decoder.layers[-1].final_layer_norm.weight.mul_(-3.0)


COUNTS = {"base": 139_420_416, "large": 406_291_456}  # of the PyTorch class
REFERENCES = {"bart": Reference(SMALL | FORMS["plain"], encdec.check_all, COUNTS, finish=randomise)}


@pytest.fixture(scope="module", params=FORMS)
def varied(request):
    return make_pair("bart", finish=vary, **SMALL | FORMS[request.param])


def test_a_scaled_form_equals_torch():
    encdec.check_all(make_pair("bart", finish=randomise, **SMALL | FORMS["scaled"]))


def test_greedy(varied):
    encdec.check_greedy(varied)


def test_beam_search(varied):
    encdec.check_beam_search(varied)


@pytest.mark.parametrize(
    "changes",
    [
        {"normalize_before": True},
        {"static_position_embeddings": True},
        {"decoder_ffn_dim": 96},
        {"activation_function": "tanh"},
        {"eos_token_id": [1, 2]},
    ],
)
def test_what_is_not_honoured_is_named(changes):
    with pytest.raises(RedcoError, match=next(iter(changes))):
        FAMILY.read(config_class("bart")(**SMALL | changes))
