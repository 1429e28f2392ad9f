"""Llama against transformers' PyTorch class, in each of its forms."""

import pytest
from families.decoders import check_all, check_cache, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference

SMALL = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
FORMS = {
    "heads": {"num_key_value_heads": 6},
    "tied_llama3": {"tie_word_embeddings": True, "rope_parameters": LLAMA_3},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 4.0}},
    "dynamic": {
        "rope_parameters": {"rope_type": "dynamic", "rope_theta": 5000.0, "factor": 4.0},
        "max_position_embeddings": 8,
    },
    "biased": {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
}


REFERENCES = {
    "llama": Reference(
        SMALL | FORMS["tied_llama3"],
        check_all,
        {  # Touvron et al. 2023; the model cards of Meta
            "7b": 6_738_415_616,
            "3.1-8b": 8_030_261_248,
            "3.2-1b": 1_235_814_400,
        },
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["heads", "linear", "biased"])
def test_forms_equal_torch(form):
    found = make_pair("llama", **SMALL | FORMS[form])
    check_forward(found)
    check_cache(found)
    check_config(found)


def test_rotations_as_slow_as_texts_are_long_equal_torch():
    found = make_pair("llama", **SMALL | FORMS["dynamic"])
    check_forward(found)
    check_config(found)


def test_grouped_heads_equal_torch():
    check_all(make_pair("llama", **SMALL))


def test_copies_of_key_and_value_heads_change_nothing():
    small = SMALL | {"num_attention_heads": 8, "head_dim": 8}
    found = make_pair("llama", shards=4, **small)
    assert found.model.full.sizes["kv_copies"] == 2
    check_forward(found)
    check_cache(found)
