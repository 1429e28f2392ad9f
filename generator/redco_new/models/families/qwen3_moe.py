"""Qwen3-MoE: Qwen3 with experts."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS_AND_HEAD,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.experts import ExpertsQuirks
from redco_new.models.family import CAUSAL, ROUTED, Family, Gguf, Settings, Size
from redco_new.models.hf_config import check_equal
from redco_new.models.tiny import tiny_mlp

KEYS = {
    **KEYS_AND_HEAD,
    "mlp_dim": "moe_intermediate_size",
    "num_experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "router_loss_coef": "router_aux_loss_coef",
}
QWEN3_MOE: dict[str, Any] = {  # of transformers' Qwen3MoeConfig
    **DEFAULTS,
    **{"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144},
    **{"num_hidden_layers": 24, "num_key_value_heads": 4, "max_position_embeddings": 32768},
    **{"bos_token_id": None, "eos_token_id": None, "attention_bias": False},
    **{"use_sliding_window": False, "sliding_window": None},
    **{"moe_intermediate_size": 768, "num_local_experts": 128, "num_experts_per_tok": 8},
    **{"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": False},
    **{"output_router_logits": False, "router_aux_loss_coef": 0.001},
}
_ROPE = {"rope_type": "default", "rope_theta": 1000000.0}


def _qwen(name: str, layers: int, embed: int, mlp: int, heads: int) -> Size:
    config = {
        "num_hidden_layers": layers,
        "hidden_size": embed,
        "intermediate_size": 3 * embed,
        "moe_intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "router_aux_loss_coef": 0.001,
        "max_position_embeddings": 40960,
        "rope_parameters": _ROPE,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    }
    return Size(config, f"Qwen/{name}")


# Yang et al. 2025, table 2; the config.json of the checkpoints.
SIZES = {
    "30b-a3b": _qwen("Qwen3-30B-A3B", 48, 2048, 768, 32),
    "235b-a22b": _qwen("Qwen3-235B-A22B", 94, 4096, 1536, 64),
}


def _read(config: Any) -> Settings:
    check_equal(config, mlp_only_layers=[], decoder_sparse_step=1)
    biased = config.attention_bias
    return read_decoder(
        config,
        KEYS,
        ExpertsQuirks,
        normalize_shares=config.norm_topk_prob,
        qk_norm=True,
        qkv_bias=biased,
        o_bias=biased,
    )


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    tiny = shrink_decoder(config, shards)
    experts = {"num_experts": 8, "num_experts_per_tok": 2}
    mlp = tiny_mlp(config.moe_intermediate_size, tiny["hidden_size"], shards)
    return tiny | experts | {"moe_intermediate_size": mlp}


FAMILY = Family(
    name="qwen3-moe",
    title="Qwen3-MoE",
    model_type="qwen3_moe",
    architecture="Qwen3MoeForCausalLM",
    template="experts",
    alike=True,
    model_class="Qwen3Moe",
    recipes=("lm",),
    provides=CAUSAL | ROUTED,
    sizes=SIZES,
    defaults=QWEN3_MOE,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ExpertsQuirks,
    gguf=Gguf("qwen3moe", quirks={"qkv_bias": False, "normalize_shares": True}),
)
