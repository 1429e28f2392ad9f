"""Llama 1, 2, 3, 3.1, 3.2 and 3.3."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS_AND_HEAD,
    DecoderQuirks,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.family import CAUSAL, Family, Gguf, Settings, Size


def _llama(
    layers: int, embed: int, mlp: int, heads: int, positions: int, *, epsilon: float = 1e-5
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": embed,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": embed // heads,
        "max_position_embeddings": positions,
        "rms_norm_eps": epsilon,
    }


def _llama_3(layers: int, embed: int, mlp: int, heads: int, **changes: Any) -> dict[str, Any]:
    return {
        **_llama(layers, embed, mlp, heads, 8192),
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        **changes,
    }


def _longer(factor: float) -> dict[str, Any]:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    return {"max_position_embeddings": 131072, "rope_parameters": rope}


LLAMA: dict[str, Any] = {  # of transformers' LlamaConfig
    **DEFAULTS,
    **{"intermediate_size": 11008, "num_key_value_heads": 32, "head_dim": 128},
    **{"max_position_embeddings": 2048, "pretraining_tp": 1},
    **{"attention_bias": False, "mlp_bias": False},
}

# Touvron et al. 2023 (1, 2), Grattafiori et al. 2024 (3); as in the config.json of the checkpoints.
SIZES = {
    "7b": Size(_llama(32, 4096, 11008, 32, 4096), "meta-llama/Llama-2-7b-hf"),
    "13b": Size(_llama(40, 5120, 13824, 40, 4096), "meta-llama/Llama-2-13b-hf"),
    "70b": Size(
        _llama(80, 8192, 28672, 64, 4096) | {"num_key_value_heads": 8}, "meta-llama/Llama-2-70b-hf"
    ),
    "1-7b": Size(_llama(32, 4096, 11008, 32, 2048, epsilon=1e-6), "huggyllama/llama-7b"),
    "1-13b": Size(_llama(40, 5120, 13824, 40, 2048, epsilon=1e-6), "huggyllama/llama-13b"),
    "1-30b": Size(_llama(60, 6656, 17920, 52, 2048, epsilon=1e-6), "huggyllama/llama-30b"),
    "1-65b": Size(_llama(80, 8192, 22016, 64, 2048), "huggyllama/llama-65b"),
    "3-8b": Size(_llama_3(32, 4096, 14336, 32), "meta-llama/Meta-Llama-3-8B"),
    "3-70b": Size(_llama_3(80, 8192, 28672, 64), "meta-llama/Meta-Llama-3-70B"),
    "3.1-8b": Size(_llama_3(32, 4096, 14336, 32, **_longer(8.0)), "meta-llama/Llama-3.1-8B"),
    "3.1-70b": Size(_llama_3(80, 8192, 28672, 64, **_longer(8.0)), "meta-llama/Llama-3.1-70B"),
    "3.1-405b": Size(_llama_3(126, 16384, 53248, 128, **_longer(8.0)), "meta-llama/Llama-3.1-405B"),
    "3.2-1b": Size(
        _llama_3(16, 2048, 8192, 32, **_longer(32.0), tie_word_embeddings=True),
        "meta-llama/Llama-3.2-1B",
    ),
    "3.2-3b": Size(
        _llama_3(28, 3072, 8192, 24, **_longer(32.0), tie_word_embeddings=True),
        "meta-llama/Llama-3.2-3B",
    ),
}


def _read(config: Any) -> Settings:
    biased, mlp_bias = config.attention_bias, config.mlp_bias
    return read_decoder(config, KEYS_AND_HEAD, qkv_bias=biased, o_bias=biased, mlp_bias=mlp_bias)


FAMILY = Family(
    name="llama",
    title="Llama",
    model_type="llama",
    architecture="LlamaForCausalLM",
    template="decoder",
    model_class="Llama",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes=SIZES,
    defaults=LLAMA,
    keys=KEYS_AND_HEAD,
    read=_read,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("llama", "interleaved"),
)
