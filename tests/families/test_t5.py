"""T5 against transformers' PyTorch class: v1.0 and v1.1."""

import pytest
import torch
from families import encdec
from families.parity import make_pair
from families.reference import Reference

from redco_new.errors import RedcoError
from redco_new.models.families.t5 import FAMILY
from redco_new.models.hf_config import config_class

pytestmark = pytest.mark.slow  # searches with many beams; test_parity has one of each kind

SMALL = {
    "vocab_size": 107,
    "d_model": 48,
    "d_ff": 80,
    "d_kv": 8,
    "num_heads": 4,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 0,
}
FORMS = {
    "v1_0": {},
    "v1_1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}


def untie(reference):
    """A head of its own, where transformers 5 ties it until it reads a checkpoint that has one."""
    if not reference.config.scale_decoder_outputs:
        reference.lm_head.weight = torch.nn.Parameter(0.3 * torch.randn(107, 48))


def vary(reference):
    """Weights that make a next token depend on the others, and seldom be the last one again."""
    untie(reference)
    reference.shared.weight.mul_(3.0)
    reference.decoder.final_layer_norm.weight.normal_(0.0, 2.0).abs_().neg_()
    for name, weight in reference.named_parameters():
        if "block" in name and weight.ndim == 2:
            weight.mul_(3.0)


REFERENCES = {
    "t5": Reference(
        SMALL | FORMS["v1_1"],
        encdec.check_all,
        {"small": 60_506_624, "base": 222_903_552},
        finish=untie,
    )
}


@pytest.fixture(scope="module", params=FORMS)
def varied(request):
    return make_pair("t5", finish=vary, **SMALL | FORMS[request.param])


def test_the_first_version_equals_torch():
    encdec.check_all(make_pair("t5", finish=untie, **SMALL | FORMS["v1_0"]))


def test_greedy(varied):
    encdec.check_greedy(varied)


def test_beam_search(varied):
    encdec.check_beam_search(varied)


@pytest.mark.parametrize("varied", ["v1_1"], indirect=True)
@pytest.mark.parametrize("early_stopping", [True, "never"])
def test_settings_of_beam_search(varied, early_stopping):
    encdec.check_beam_search(varied, early_stopping=early_stopping, length_penalty=2.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feed_forward_proj": "gated-tanh"}, "tanh"),
        ({"decoder_start_token_id": [0]}, "decoder_start_token_id is"),
        ({"eos_token_id": [1, 2]}, "eos_token_id is"),
    ],
)
def test_what_is_not_honoured_is_named(changes, message):
    with pytest.raises(RedcoError, match=message):
        FAMILY.read(config_class("t5")(**SMALL | changes))


def test_a_target_starts_with_padding_where_config_json_does_not_say():
    config = config_class("t5")(**SMALL | {"decoder_start_token_id": None, "pad_token_id": 3})
    assert FAMILY.read(config).sizes["start_id"] == 3


def test_a_head_that_is_saved_as_the_embedding():
    """transformers 5 ties the head of what it starts anew, and writes one of the two."""
    encdec.check_forward(make_pair("t5", **SMALL | FORMS["v1_1"]))
