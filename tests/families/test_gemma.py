"""Gemma 2 and 3 against transformers' PyTorch classes, with windows shorter than the text."""

import pytest
from families.decoders import check_all, check_cache, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

from redco_new.errors import RedcoError

GEMMA = {key: value for key, value in SMALL.items() if key != "num_hidden_layers"} | {
    "head_dim": 16,
    "query_pre_attn_scalar": 20,
    "sliding_window": 5,
    "bos_token_id": None,
    "eos_token_id": None,
}
SLOWED = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 50000.0, "factor": 8.0},
}


CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
REFERENCES = {  # parameters: the model cards
    "gemma2": Reference(GEMMA | CAPS | {"num_hidden_layers": 4}, check_all, {"2b": 2_614_341_888}),
    "gemma3": Reference(GEMMA | {"num_hidden_layers": 7}, check_all, {"1b": 999_885_952}),
}


def test_gemma3_with_slower_rotations():
    found = make_pair("gemma3", **GEMMA, num_hidden_layers=7, rope_parameters=SLOWED)
    check_forward(found)
    check_cache(found)
    check_config(found)


def test_layers_without_a_period_are_refused():
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    with pytest.raises(RedcoError, match="layer_types follow no period"):
        make_pair("gemma2", **GEMMA, num_hidden_layers=3, layer_types=kinds)
