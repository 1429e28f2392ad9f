"""OLMo 2: Llama whose norms follow attention and the MLP, and whose queries and keys are normed over all heads."""

from typing import Any

from redco_new.models.decoders import KEYS, DecoderQuirks, read_decoder, shrink_decoder
from redco_new.models.family import CAUSAL, Family, Gguf, Settings, Size

DEFAULTS: dict[str, Any] = {  # of transformers' Olmo2Config
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "eos_token_id": 50279,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 11008,
    "max_position_embeddings": 2048,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": False,
    "use_cache": True,
    "vocab_size": 50304,
}


def _read(config: Any) -> Settings:
    biased = config.attention_bias
    return read_decoder(config, KEYS, qkv_bias=biased, o_bias=biased)


def _olmo(name: str, layers: int, embed: int, mlp: int, heads: int, **changes: Any) -> Size:
    config = {
        "vocab_size": 100352,
        "hidden_size": embed,
        "intermediate_size": mlp,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000},
        "eos_token_id": 100257,
        "pad_token_id": 100277,
    }
    return Size(config | changes, f"allenai/{name}")


# OLMo et al. 2024, table 1; as in the config.json of the checkpoints.
SIZES = {
    "7b": _olmo("OLMo-2-1124-7B", 32, 4096, 11008, 32),
    "13b": _olmo("OLMo-2-1124-13B", 40, 5120, 13824, 40),
    "32b": _olmo(
        "OLMo-2-0325-32B", 64, 5120, 27648, 40, num_key_value_heads=8, bos_token_id=100257
    ),
}

FAMILY = Family(
    name="olmo2",
    title="OLMo 2",
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    template="olmo2",
    model_class="Olmo2",
    provides=CAUSAL,
    alike=True,
    recipes=("lm",),
    sizes=SIZES,
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("olmo2", quirks={"qkv_bias": False, "own_head": True}),
)
