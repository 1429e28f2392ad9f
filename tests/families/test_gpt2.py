"""GPT-2 against transformers' PyTorch class, and the sizes known by name."""

import pytest
from families.decoders import check_all
from families.parity import make_pair
from families.reference import Reference

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


REFERENCES = {
    "gpt2": Reference(
        SMALL,
        check_all,
        {
            "small": 124_439_808,
            "medium": 354_823_168,
            "large": 774_030_080,
            "xl": 1_557_611_200,
        },
        seed=12,
    )
}


def test_relu_equals_torch():
    check_all(make_pair("gpt2", 12, **SMALL, activation_function="relu"))


def test_the_mlp_is_four_times_as_wide_where_nothing_is_said():
    assert make_pair("gpt2", **SMALL | {"n_inner": None}).model.full.sizes["mlp_dim"] == 192


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
        make_pair("gpt2", **SMALL, **changes)
