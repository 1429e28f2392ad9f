"""Mistral against transformers' PyTorch class, with a window shorter than the text."""

from families.decoders import check_all, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

REFERENCES = {
    "mistral": Reference(
        SMALL | {"sliding_window": 5}, check_all, {"7b-v0.1": 7_241_732_096}  # Jiang et al. 2023
    )
}


def test_without_a_window():
    found = make_pair("mistral", **SMALL, sliding_window=None)
    check_forward(found)
    check_config(found)
