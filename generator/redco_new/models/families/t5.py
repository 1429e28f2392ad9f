"""T5: v1.0 (relu, tied), v1.1 and Flan (gated gelu, untied)."""

from dataclasses import dataclass
from typing import Any

from redco_new.models.family import ENCODER_DECODER, ActivationQuirks, Family, Settings, Size
from redco_new.models.hf_config import read_activation, read_keys, refuse
from redco_new.models.tiny import tiny_heads, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "d_model",
    "mlp_dim": "d_ff",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "num_heads": "num_heads",
    "head_dim": "d_kv",
    "distance_buckets": "relative_attention_num_buckets",
    "max_distance": "relative_attention_max_distance",
    "norm_epsilon": "layer_norm_epsilon",
    "start_id": "decoder_start_token_id",
    "pad_id": "pad_token_id",
    "eos_id": "eos_token_id",
}

DEFAULTS: dict[str, Any] = {  # of transformers' T5Config
    **{"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_heads": 8},
    **{"num_layers": 6, "num_decoder_layers": 6, "layer_norm_epsilon": 1e-6},
    **{"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    **{"feed_forward_proj": "relu", "dense_act_fn": "relu", "is_gated_act": False},
    **{"scale_decoder_outputs": True, "tie_word_embeddings": True},
    **{"dropout_rate": 0.1, "classifier_dropout": 0.0, "initializer_factor": 1.0},
    **{"pad_token_id": 0, "eos_token_id": 1, "use_cache": True},
    **{"is_encoder_decoder": True, "is_decoder": False},
}

LENGTH = (
    512  # tokens of a source by default: those that T5 was trained on (Raffel et al. 2020, 3.1.2)
)


@dataclass(frozen=True)
class T5Quirks(ActivationQuirks):
    """What the template depends on besides sizes.

    gate: whether the MLP has a gate (v1.1).
    own_head: whether logits have a table of their own (v1.1), not that of the embedding.
    """

    gate: bool
    own_head: bool

    @property
    def mlp_names(self) -> dict[str, str]:
        """What checkpoints call the linear layers of the MLP."""
        if self.gate:
            return {"gate": "wi_0", "up": "wi_1", "down": "wo"}
        return {"up": "wi", "down": "wo"}


def _read(config: Any) -> Settings:
    # T5 starts a target with padding where config.json does not say with what.
    start = getattr(config, "decoder_start_token_id", None)
    sizes = read_keys(config, KEYS | ({"start_id": "pad_token_id"} if start is None else {}))
    for field in ("start_id", "pad_id", "eos_id"):
        if not isinstance(sizes[field], int):
            refuse(config, f"{KEYS[field]} is {sizes[field]!r}, and redco needs one token")
    activation = read_activation(config, "dense_act_fn")
    # transformers 5 keeps of `tie_word_embeddings` only what it says of the logits' scale.
    own_head = not config.scale_decoder_outputs
    quirks = T5Quirks(activation, gate=config.is_gated_act, own_head=own_head)
    return Settings(sizes, quirks, LENGTH)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.num_heads, config.num_heads, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "d_model": 16 * heads,
        "d_ff": 64 * heads,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": heads,
        "d_kv": 16,
        **{"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
    }


def _size(d_model: int, d_ff: int, layers: int, heads: int, d_kv: int = 64) -> dict[str, Any]:
    dims = {"d_model": d_model, "d_ff": d_ff, "num_heads": heads, "d_kv": d_kv}
    counts = {"num_layers": layers, "num_decoder_layers": layers}
    return dims | counts | {"decoder_start_token_id": 0}


FIRST = {  # Raffel et al. 2020, section 3.7
    "small": _size(512, 2048, 6, 8),
    "base": _size(768, 3072, 12, 12),
    "large": _size(1024, 4096, 24, 16),
    "3b": _size(1024, 16384, 24, 32, 128),
    "11b": _size(1024, 65536, 24, 128, 128),
}
GATED: dict[str, Any] = {
    **{"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": True},
    "scale_decoder_outputs": False,
}
# Shazeer 2020: as in the config.json of the checkpoints of v1.1 and of Flan.
LATER = {
    "small": _size(512, 1024, 8, 6) | GATED,
    "base": _size(768, 2048, 12, 12) | GATED,
    "large": _size(1024, 2816, 24, 16) | GATED,
    "xl": _size(2048, 5120, 24, 32) | GATED,
    "xxl": _size(4096, 10240, 24, 64) | GATED,
}

FAMILY = Family(
    name="t5",
    title="T5",
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    template="t5",
    model_class="T5",
    recipes=("seq2seq",),
    provides=ENCODER_DECODER,
    sizes={
        **{name: Size(config, f"google-t5/t5-{name}") for name, config in FIRST.items()},
        **{f"v1_1-{n}": Size(config, f"google/t5-v1_1-{n}") for n, config in LATER.items()},
        **{f"flan-{n}": Size(config, f"google/flan-t5-{n}") for n, config in LATER.items()},
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=T5Quirks,
    bias_tables=("encoder_distance", "decoder_distance"),
    dropout=dict.fromkeys(("embed", "residual", "weights", "inner", "end"), "dropout_rate"),
)
