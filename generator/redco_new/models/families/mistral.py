"""Mistral: Llama that may attend to a sliding window only."""

from typing import Any

from redco_new.models.decoders import (
    DEFAULTS,
    KEYS_AND_HEAD,
    DecoderQuirks,
    read_decoder,
    shrink_decoder,
)
from redco_new.models.family import CAUSAL, Family, Gguf, Settings, Size

MISTRAL: dict[str, Any] = {  # of transformers' MistralConfig
    **DEFAULTS,
    **{"intermediate_size": 14336, "num_key_value_heads": 8, "head_dim": 128},
    **{"max_position_embeddings": 131072, "sliding_window": 4096},
}
ROPE = {"rope_type": "default", "rope_theta": 1000000.0}

# Jiang et al. 2023; as in the config.json of the checkpoints.
SIZES = {
    "7b-v0.1": Size({"rms_norm_eps": 1e-5}, "mistralai/Mistral-7B-v0.1"),
    "7b-v0.3": Size(
        {
            "vocab_size": 32768,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-5,
            "rope_parameters": ROPE,
            "sliding_window": None,
        },
        "mistralai/Mistral-7B-v0.3",
    ),
    "nemo-12b": Size(
        {
            "vocab_size": 131072,
            "hidden_size": 5120,
            "num_hidden_layers": 40,
            "head_dim": 128,
            "rms_norm_eps": 1e-5,
            "rope_parameters": ROPE,
            "sliding_window": None,
        },
        "mistralai/Mistral-Nemo-Base-2407",
    ),
}


def _read(config: Any) -> Settings:
    return read_decoder(config, KEYS_AND_HEAD)


FAMILY = Family(
    name="mistral",
    title="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    template="decoder",
    model_class="Mistral",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes=SIZES,
    defaults=MISTRAL,
    keys=KEYS_AND_HEAD,
    read=_read,
    shrink=shrink_decoder,
    quirks=DecoderQuirks,
    gguf=Gguf("llama", "interleaved"),
)
