"""OLMo 2 against transformers' PyTorch class."""

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
    "tie_word_embeddings": True,
    "eos_token_id": 2,
}

REFERENCES = {
    "olmo2": Reference(
        SMALL,
        check_all,
        {"7b": 7_298_617_344, "13b": 13_716_198_400, "32b": 32_234_279_936},
    )
}


def test_copies_of_key_and_value_heads_change_nothing():
    small = SMALL | {"hidden_size": 64, "num_attention_heads": 8}
    found = make_pair("olmo2", shards=4, **small)
    assert found.model.full.sizes["kv_copies"] == 2
    check_forward(found)
    check_cache(found)


@pytest.mark.slow
def test_biases_and_a_head_of_its_own():
    found = make_pair("olmo2", **SMALL | {"attention_bias": True, "tie_word_embeddings": False})
    check_forward(found)
    check_config(found)
