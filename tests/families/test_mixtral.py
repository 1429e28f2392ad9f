"""Mixtral and Qwen3-MoE against transformers' PyTorch classes."""

import pytest
from families.decoders import check_all, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

from redco_new.errors import RedcoError

QWEN = {"moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 3, "head_dim": 16}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8}


REFERENCES = {  # parameters: Jiang et al. 2024; the model card of Qwen
    "mixtral": Reference(SMALL | MIXTRAL, check_all, {"8x7b": 46_702_792_704}),
    "qwen3-moe": Reference(
        SMALL | QWEN | {"norm_topk_prob": True}, check_all, {"30b-a3b": 30_532_122_624}
    ),
}


def test_shares_that_are_not_normalized():
    check_forward(make_pair("qwen3-moe", **SMALL, **QWEN, norm_topk_prob=False))


def test_layers_without_experts_are_refused():
    with pytest.raises(RedcoError, match="mlp_only_layers is"):
        make_pair("qwen3-moe", **SMALL, **QWEN, mlp_only_layers=[0])
