"""Mixtral: Mistral with experts."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS_AND_HEAD,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.experts import ExpertsQuirks
from redco_new.models.family import CAUSAL, ROUTED, Family, Gguf, Settings, Size

KEYS = {
    **KEYS_AND_HEAD,
    "num_experts": "num_local_experts",
    "experts_per_token": "num_experts_per_tok",
    "router_loss_coef": "router_aux_loss_coef",
}
MIXTRAL: dict[str, Any] = {  # of transformers' MixtralConfig
    **DEFAULTS,
    **{"intermediate_size": 14336, "num_key_value_heads": 8, "head_dim": None},
    **{"max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "sliding_window": None},
    **{"num_local_experts": 8, "num_experts_per_tok": 2},
    **{"output_router_logits": False, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0},
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
}
_ROPE = {"rope_type": "default", "rope_theta": 1000000.0}

# Jiang et al. 2024, table 1; the config.json of the checkpoints.
SIZES = {
    "8x7b": Size(
        {
            "max_position_embeddings": 32768,
            "router_aux_loss_coef": 0.02,
            "rope_parameters": _ROPE,
        },
        "mistralai/Mixtral-8x7B-v0.1",
    ),
    "8x22b": Size(
        {
            "vocab_size": 32768,
            "hidden_size": 6144,
            "intermediate_size": 16384,
            "num_hidden_layers": 56,
            "num_attention_heads": 48,
            "max_position_embeddings": 65536,
            "router_aux_loss_coef": 0.001,
            "rope_parameters": _ROPE,
        },
        "mistralai/Mixtral-8x22B-v0.3",
    ),
}


def _read(config: Any) -> Settings:
    names = {"block": "block_sparse_moe", "gate": "w1", "up": "w3", "down": "w2"}
    return read_decoder(config, KEYS, ExpertsQuirks, **names)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    return shrink_decoder(config, shards) | {"num_local_experts": 4, "num_experts_per_tok": 2}


FAMILY = Family(
    name="mixtral",
    title="Mixtral",
    model_type="mixtral",
    architecture="MixtralForCausalLM",
    template="experts",
    alike=True,
    model_class="Mixtral",
    recipes=("lm",),
    provides=CAUSAL | ROUTED,
    sizes=SIZES,
    defaults=MIXTRAL,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ExpertsQuirks,
    gguf=Gguf("llama", "interleaved"),
)
