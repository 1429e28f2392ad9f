"""Qwen2 and Qwen3 against transformers' PyTorch classes."""

import pytest
from families.decoders import check_all, check_config, check_forward
from families.parity import make_pair
from families.reference import Reference
from families.test_llama import SMALL

from redco_new.errors import RedcoError

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
STATED = {"beta_fast": 16, "beta_slow": 2.0, "attention_factor": 1.3}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SIZES = {"qwen3": {"head_dim": 16}, "qwen3-moe": {"head_dim": 16} | EXPERTS}
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


@pytest.mark.parametrize(("name", "more"), [("qwen2", {}), ("qwen3", STATED), ("qwen3-moe", {})])
def test_yarn_equals_torch(name, more):
    rope = YARN | {"rope_theta": 1e4} | more
    found = make_pair(name, **SMALL | SIZES.get(name, {}), rope_parameters=rope)
    check_forward(found)
    check_config(found)
    assert found.model.full.quirks.rope_stated == " ".join(more)


@pytest.mark.parametrize("key", [{"mscale": 1.0, "mscale_all_dim": 0.5}, {"truncate": False}])
def test_yarn_of_other_models_is_refused(key):
    with pytest.raises(RedcoError, match=f"{next(iter(key))} is "):
        make_pair("qwen3", **SMALL, head_dim=16, rope_parameters=YARN | {"rope_theta": 1e4} | key)
