"""Qwen2 and Qwen3 against transformers' PyTorch classes."""

import pytest
from families.decoders import check_all, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

from redco_new.errors import RedcoError

WINDOWS = {"use_sliding_window": True, "sliding_window": 5}


REFERENCES = {  # parameters: the model cards
    "qwen2": Reference(SMALL, check_all, {"2.5-7b": 7_615_616_512}),
    "qwen3": Reference(
        SMALL | {"head_dim": 16, "tie_word_embeddings": True}, check_all, {"0.6b": 596_049_920}
    ),
}


def test_qwen2_with_a_window_in_every_layer():
    found = make_pair("qwen2", **SMALL, **WINDOWS, max_window_layers=0, tie_word_embeddings=True)
    check_forward(found)
    check_config(found)


def test_windows_in_some_layers_are_refused():
    with pytest.raises(RedcoError, match="layers differ: full_attention, sliding_attention"):
        make_pair("qwen2", **SMALL, **WINDOWS, max_window_layers=2)
