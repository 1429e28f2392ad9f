"""Mistral against transformers' PyTorch class, with a window shorter than the text."""

from families.decoders import check_all, check_config, check_forward
from families.parity import pair
from families.test_llama import SMALL


def test_equals_torch():
    check_all(pair("mistral", **SMALL, sliding_window=5))


def test_without_a_window():
    found = pair("mistral", **SMALL, sliding_window=None)
    check_forward(found)
    check_config(found)
