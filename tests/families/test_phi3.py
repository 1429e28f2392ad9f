"""Phi-3 against transformers' PyTorch class: fused tensors, rotations of a part, LongRoPE."""

import pytest
from families.decoders import check_all, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

PHI = SMALL | {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2],
    "long_factor": [1.5, 2.5, 4.0],
    "partial_rotary_factor": 0.75,
}


REFERENCES = {  # parameters: the model card
    "phi-3": Reference(PHI | {"sliding_window": 7}, check_all, {"mini-4k": 3_821_079_552})
}


@pytest.mark.parametrize("original", [8, 64])
def test_longrope(original):
    rope = LONG | {"original_max_position_embeddings": original}
    found = make_pair(
        "phi-3", **PHI, rope_parameters=rope, original_max_position_embeddings=original
    )
    check_forward(found)
    check_config(found)
