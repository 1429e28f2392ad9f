"""Qwen2, Qwen2.5 and Qwen3."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS,
    KEYS_AND_HEAD,
    DecoderQuirks,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.family import CAUSAL, Family, Gguf, Settings, Size

QWEN2_DEFAULTS: dict[str, Any] = {  # of transformers' Qwen2Config
    **DEFAULTS,
    **{"vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32},
    **{"max_position_embeddings": 32768, "bos_token_id": None, "eos_token_id": None},
    **{"use_sliding_window": False, "sliding_window": None, "max_window_layers": 28},
    "layer_types": ["full_attention"] * 32,
}
# Of transformers' Qwen3Config.
QWEN3_DEFAULTS = {**QWEN2_DEFAULTS, "head_dim": 128, "attention_bias": False}


def _qwen(
    name: str, layers: int, embed: int, mlp: int, heads: int, kv_heads: int, **changes: Any
) -> Size:
    config = {
        "num_hidden_layers": layers,
        "layer_types": ["full_attention"] * layers,
        "hidden_size": embed,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "bos_token_id": 151643,
        "eos_token_id": 151643,
    }
    return Size(config | changes, f"Qwen/{name}")


_TIED: dict[str, Any] = {"tie_word_embeddings": True}
_LARGE: dict[str, Any] = {"vocab_size": 152064, "max_position_embeddings": 131072}
_LARGER = {**_LARGE, "rms_norm_eps": 1e-5}

# Yang et al. 2024, table 1; as in the config.json of the checkpoints.
QWEN2_SIZES = {
    "2.5-0.5b": _qwen("Qwen2.5-0.5B", 24, 896, 4864, 14, 2, **_TIED),
    "2.5-1.5b": _qwen(
        "Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, **_TIED, max_position_embeddings=131072
    ),
    "2.5-3b": _qwen("Qwen2.5-3B", 36, 2048, 11008, 16, 2, **_TIED),
    "2.5-7b": _qwen("Qwen2.5-7B", 28, 3584, 18944, 28, 4, **_LARGE),
    "2.5-14b": _qwen("Qwen2.5-14B", 48, 5120, 13824, 40, 8, **_LARGER),
    "2.5-32b": _qwen("Qwen2.5-32B", 64, 5120, 27648, 40, 8, **_LARGER),
    "2.5-72b": _qwen("Qwen2.5-72B", 80, 8192, 29568, 64, 8, **_LARGER),
    "0.5b": _qwen("Qwen2-0.5B", 24, 896, 4864, 14, 2, **_TIED, max_position_embeddings=131072),
    "1.5b": _qwen("Qwen2-1.5B", 28, 1536, 8960, 12, 2, **_TIED, max_position_embeddings=131072),
    "7b": _qwen("Qwen2-7B", 28, 3584, 18944, 28, 4, **_LARGE),
    "72b": _qwen("Qwen2-72B", 80, 8192, 29568, 64, 8, **_LARGER),
}
# Yang et al. 2025, table 1; as in the config.json of the checkpoints.
QWEN3_SIZES = {
    "0.6b": _qwen("Qwen3-0.6B-Base", 28, 1024, 3072, 16, 8, **_TIED),
    "1.7b": _qwen("Qwen3-1.7B-Base", 28, 2048, 6144, 16, 8, **_TIED),
    "4b": _qwen("Qwen3-4B-Base", 36, 2560, 9728, 32, 8, **_TIED),
    "8b": _qwen("Qwen3-8B-Base", 36, 4096, 12288, 32, 8),
    "14b": _qwen("Qwen3-14B-Base", 40, 5120, 17408, 40, 8),
    "32b": _qwen("Qwen3-32B", 64, 5120, 25600, 64, 8, max_position_embeddings=40960),
}


def _read_qwen2(config: Any) -> Settings:
    return read_decoder(config, KEYS, qkv_bias=True)


def _read_qwen3(config: Any) -> Settings:
    biased = config.attention_bias
    return read_decoder(config, KEYS_AND_HEAD, qk_norm=True, qkv_bias=biased, o_bias=biased)


QWEN2 = Family(
    name="qwen2",
    title="Qwen2",
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    template="decoder",
    model_class="Qwen2",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes=QWEN2_SIZES,
    defaults=QWEN2_DEFAULTS,
    keys=KEYS,
    read=_read_qwen2,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("qwen2"),
)
QWEN3 = Family(
    name="qwen3",
    title="Qwen3",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    template="decoder",
    model_class="Qwen3",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes=QWEN3_SIZES,
    defaults=QWEN3_DEFAULTS,
    keys=KEYS_AND_HEAD,
    read=_read_qwen3,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("qwen3", quirks={"qkv_bias": False}),
)
