"""Mixtral and Qwen3-MoE: decoders with experts."""

from typing import Any

from redco_new.models.families.decoders import (
    DERIVED,
    KEYS_AND_HEAD,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.family import Family, Settings, Size, check_equal
from redco_new.models.tiny import tiny_mlp

KEYS_MIXTRAL = {
    **KEYS_AND_HEAD,
    "num_experts": "num_local_experts",
    "experts_per_token": "num_experts_per_tok",
}
KEYS_QWEN = {
    **KEYS_AND_HEAD,
    "mlp_dim": "moe_intermediate_size",
    "num_experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
}
# What checkpoints call the block and the kernels of an expert.
MIXTRAL_NAMES = {"module": "block_sparse_moe", "gate": "w1", "up": "w3", "down": "w2"}
QWEN_NAMES = {"module": "mlp", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}

_ROPE = {"rope_type": "default", "rope_theta": 1000000.0}

MIXTRAL_SIZES = {
    "8x7b": Size(
        {"max_position_embeddings": 32768, "rope_parameters": _ROPE}, "mistralai/Mixtral-8x7B-v0.1"
    ),
    "8x22b": Size(
        {
            "vocab_size": 32768,
            "hidden_size": 6144,
            "intermediate_size": 16384,
            "num_hidden_layers": 56,
            "num_attention_heads": 48,
            "max_position_embeddings": 65536,
            "rope_parameters": _ROPE,
        },
        "mistralai/Mixtral-8x22B-v0.3",
    ),
}


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
        "max_position_embeddings": 40960,
        "rope_parameters": _ROPE,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    }
    return Size(config, f"Qwen/{name}")


QWEN_SIZES = {
    "30b-a3b": _qwen("Qwen3-30B-A3B", 48, 2048, 768, 32),
    "235b-a22b": _qwen("Qwen3-235B-A22B", 94, 4096, 1536, 64),
}


def read_mixtral(config: Any) -> Settings:
    return _roomy(read_decoder(config, KEYS_MIXTRAL, experts=MIXTRAL_NAMES, normalized=True))


def read_qwen(config: Any) -> Settings:
    check_equal(config, mlp_only_layers=[], decoder_sparse_step=1)
    biased = config.attention_bias
    return _roomy(
        read_decoder(
            config,
            KEYS_QWEN,
            experts=QWEN_NAMES,
            normalized=config.norm_topk_prob,
            qk_norm=True,
            qkv_bias=biased,
            o_bias=biased,
        )
    )


def _roomy(settings: Settings) -> Settings:
    """With room for every token in each expert, so that none is left out."""
    sizes = settings.sizes
    room = sizes["num_experts"] / sizes["experts_per_token"]
    return Settings(sizes | {"capacity_factor": room}, settings.quirks, settings.sequence_length)


def shrink_mixtral(config: Any, shards: int) -> dict[str, Any]:
    return shrink_decoder(config, shards) | {"num_local_experts": 4, "num_experts_per_tok": 2}


def shrink_qwen(config: Any, shards: int) -> dict[str, Any]:
    tiny = shrink_decoder(config, shards)
    experts = {"num_experts": 8, "num_experts_per_tok": 2}
    mlp = tiny_mlp(config.moe_intermediate_size, tiny["hidden_size"], shards)
    return tiny | experts | {"moe_intermediate_size": mlp}


MIXTRAL = Family(
    name="mixtral",
    title="Mixtral",
    model_type="mixtral",
    architecture="MixtralForCausalLM",
    template="decoder",
    model_class="Mixtral",
    recipe="lm",
    sizes=MIXTRAL_SIZES,
    keys=KEYS_MIXTRAL,
    read=read_mixtral,
    shrink=shrink_mixtral,
    derived=DERIVED,
)
QWEN3_MOE = Family(
    name="qwen3-moe",
    title="Qwen3-MoE",
    model_type="qwen3_moe",
    architecture="Qwen3MoeForCausalLM",
    template="decoder",
    model_class="Qwen3Moe",
    recipe="lm",
    sizes=QWEN_SIZES,
    keys=KEYS_QWEN,
    read=read_qwen,
    shrink=shrink_qwen,
    derived=(*DERIVED, "num_local_experts"),
)
