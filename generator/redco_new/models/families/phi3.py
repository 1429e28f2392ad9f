"""Phi-3 and Phi-4: Llama whose checkpoints hold q, k and v, and gate and up, in one tensor each."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS,
    DecoderQuirks,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.family import CAUSAL, Family, Gguf, Settings, Size

PHI: dict[str, Any] = {  # of transformers' Phi3Config
    **DEFAULTS,
    **{"vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192},
    **{"num_key_value_heads": 32, "rms_norm_eps": 1e-5, "sliding_window": None},
    **{"max_position_embeddings": 4096, "original_max_position_embeddings": 4096},
    **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "eos_token_id": 32000, "pad_token_id": 32000},
    "rope_parameters": {
        "rope_theta": 10000.0,
        "partial_rotary_factor": 1.0,
        "rope_type": "default",
    },
}
_MEDIUM = {
    "hidden_size": 5120,
    "intermediate_size": 17920,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 10,
}

# Abdin et al. 2024 (Phi-3, Phi-4); as in the config.json of the checkpoints.
SIZES = {
    "mini-4k": Size({"sliding_window": 2047}, "microsoft/Phi-3-mini-4k-instruct"),
    "medium-4k": Size(_MEDIUM | {"sliding_window": 2047}, "microsoft/Phi-3-medium-4k-instruct"),
    "4": Size(
        _MEDIUM
        | {
            "vocab_size": 100352,
            "max_position_embeddings": 16384,
            "original_max_position_embeddings": 16384,
            "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0},
            "bos_token_id": 100257,
            "eos_token_id": 100257,
            "pad_token_id": 100257,
        },
        "microsoft/phi-4",
    ),
}


def _read(config: Any) -> Settings:
    return read_decoder(config, KEYS, tensors="fused")


FAMILY = Family(
    name="phi-3",
    title="Phi",
    model_type="phi3",
    architecture="Phi3ForCausalLM",
    template="decoder",
    model_class="Phi3",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes=SIZES,
    defaults=PHI,
    keys=KEYS,
    read=_read,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("phi3"),
)
