"""GPT-2 against transformers' PyTorch class, and the sizes known by name."""

import pytest
from families.counts import count
from families.decoders import check_all
from families.parity import pair

from redco_new.errors import RedcoError

SMALL = {
    "vocab_size": 131,
    "n_embd": 48,
    "n_inner": 80,
    "n_layer": 3,
    "n_head": 6,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_equals_torch(activation):
    # With this seed, greedy texts do not repeat one token.
    check_all(pair("gpt2", 12, **SMALL, activation_function=activation))


def test_the_mlp_is_four_times_as_wide_where_nothing_is_said():
    assert pair("gpt2", **SMALL | {"n_inner": None}).model.full.sizes["mlp_dim"] == 192


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        ("small", 124_439_808),
        ("medium", 354_823_168),
        ("large", 774_030_080),
        ("xl", 1_557_611_200),
    ],
)
def test_known_sizes(size, parameters):
    assert count("gpt2", size) == parameters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation_function": "mish"}, "activation_function is 'mish'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ({"add_cross_attention": True}, "add_cross_attention is True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
    ],
)
def test_what_is_not_honoured_is_refused(changes, message):
    with pytest.raises(RedcoError, match=message):
        pair("gpt2", **SMALL, **changes)
