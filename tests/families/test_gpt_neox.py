"""GPT-NeoX against transformers' PyTorch class, and the sizes known by name."""

import pytest
from families.decoders import check_all
from families.parity import make_pair
from families.reference import Reference

from redco_new.errors import RedcoError

SMALL = {
    "vocab_size": 131,
    "hidden_size": 96,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5},
    "bos_token_id": 1,
    "eos_token_id": 2,
}


REFERENCES = {
    "gpt-neox": Reference(
        SMALL,
        check_all,
        {  # the published checkpoints
            "pythia-6.9b": 6_857_302_016,
            "pythia-70m": 70_426_624,
            "pythia-160m": 162_322_944,
            "pythia-410m": 405_334_016,
            "pythia-1b": 1_011_781_632,
            "pythia-1.4b": 1_414_647_808,
            "pythia-2.8b": 2_775_208_960,
            "pythia-12b": 11_846_072_320,
            "20b": 20_554_567_680,
        },
    )
}


def _rope(**changes):
    return {"rope_parameters": SMALL["rope_parameters"] | changes}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"use_parallel_residual": False},
        {"hidden_act": "gelu_fast"},
        _rope(partial_rotary_factor=1.0),
        _rope(partial_rotary_factor=0.25),
    ],
)
def test_variants_equal_torch(changes):
    check_all(make_pair("gpt-neox", **SMALL | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act is 'mish'"),
        ({"attention_bias": False}, "attention_bias is False"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings is True"),
        (_rope(rope_type="linear", factor=2.0), "rope_type is 'linear'"),
        (_rope(partial_rotary_factor=0.2), "partial_rotary_factor rotates 3"),
    ],
)
def test_what_is_not_honoured_is_refused(changes, message):
    with pytest.raises(RedcoError, match=message):
        make_pair("gpt-neox", **SMALL | changes)
