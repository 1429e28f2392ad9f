"""What a GGUF says of a model, of its config.json: keys of gguf 0.19 (constants.py), read by src/llama-model.cpp."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.messages import UserError

# Key, behind the architecture's name -> its type, the keys of config.json that may have it.
NUMBERS: dict[str, Any] = {
    "context_length": (int, "max_position_embeddings", "n_positions"),
    "embedding_length": (int, "hidden_size", "n_embd"),
    "block_count": (int, "num_hidden_layers", "n_layer"),
    "feed_forward_length": (int, "intermediate_size", "n_inner"),
    "attention.head_count": (int, "num_attention_heads", "n_head"),
    "attention.head_count_kv": (int, "num_key_value_heads"),
    "vocab_size": (int, "vocab_size"),
    "expert_count": (int, "num_local_experts", "num_experts"),
    "expert_used_count": (int, "num_experts_per_tok"),
    "expert_feed_forward_length": (int, "moe_intermediate_size"),
    "attention.layer_norm_epsilon": (float, "layer_norm_eps", "layer_norm_epsilon"),
    "attention.layer_norm_rms_epsilon": (float, "rms_norm_eps"),
    "attn_logit_softcapping": (float, "attn_logit_softcapping"),
    "final_logit_softcapping": (float, "final_logit_softcapping"),
    "use_parallel_residual": (bool, "use_parallel_residual"),
}
# Layers of the size whose queries llama.cpp scales otherwise.
LARGEST = {"gemma2": 46, "gemma3": 62}


def metadata(config: Mapping[str, Any], arch: str) -> dict[str, Any]:
    """Return key, behind the architecture's name -> value. Raises UserError for what llama.cpp computes otherwise."""
    values: dict[str, Any] = {}
    for key, (kind, *names) in NUMBERS.items():
        value = next((config[name] for name in names if config.get(name) is not None), None)
        if value is not None:
            values[key] = kind(value)
    heads = values["attention.head_count"]
    size = config.get("head_dim") or values["embedding_length"] // heads
    values |= {"attention.key_length": size, "attention.value_length": size}
    if rope := config.get("rope_parameters"):
        values |= _rotations(rope, size)
    _check_scale(config, arch, size, values)
    return values | _window(config, values["context_length"])


def rope_factors(config: Mapping[str, Any]) -> np.ndarray | None:
    """Return by what Llama 3.1 slows each rotation, which a GGUF has as a tensor; None for other rotations.

    Grattafiori et al. 2024, as transformers has it.
    """
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") != "llama3":
        return None
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    turns = rope["rope_theta"] ** (-np.arange(0, size, 2) / size) / (2 * np.pi)
    turns *= rope["original_max_position_embeddings"]  # in the original length
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - share) / rope["factor"] + share)).astype(np.float32)


def _rotations(rope: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Return what is said of rotations, of layers that see all, and of those in a window where these differ."""
    far, near = rope.get("full_attention", rope), rope.get("sliding_attention", {})
    values: dict[str, Any] = {
        "rope.freq_base": float(far["rope_theta"]),
        "rope.dimension_count": int(size * far.get("partial_rotary_factor", 1.0)),
    }
    if near:
        values["rope.freq_base_swa"] = float(near["rope_theta"])
    if far.get("rope_type") == "linear":
        values |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(far["factor"])}
    return values


def _window(config: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return the window of layers that differ; where all have it, llama.cpp has none: texts are no longer than it."""
    window, kinds = config.get("sliding_window"), config.get("layer_types") or ()
    if not window:
        return {}
    if len(set(kinds)) < 2:
        return {"context_length": min(length, window)}
    pattern = [kind == "sliding_attention" for kind in kinds]
    return {"attention.sliding_window": window, "attention.sliding_window_pattern": pattern}


def _check_scale(config: Mapping[str, Any], arch: str, size: int, values: Any) -> None:
    """Raise UserError where llama.cpp, to which a GGUF cannot say it, divides queries by the root of another number."""
    if arch not in LARGEST:
        return
    if values["block_count"] == LARGEST[arch]:
        size = values["embedding_length"] // values["attention.head_count"]
    if (own := config["query_pre_attn_scalar"]) != size:
        raise UserError(
            f"--format: llama.cpp divides queries by the root of {size}, and this model by that of {own} "
            "(query_pre_attn_scalar): export as safetensors"
        )
