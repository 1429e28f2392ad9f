"""BART."""

from dataclasses import dataclass
from typing import Any

from redco_new.models.family import ENCODER_DECODER, ActivationQuirks, Family, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys, refuse
from redco_new.models.tiny import tiny_heads, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "d_model",
    "mlp_dim": "encoder_ffn_dim",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "num_heads": "encoder_attention_heads",
    "max_positions": "max_position_embeddings",
    "start_id": "decoder_start_token_id",
    "pad_id": "pad_token_id",
    "eos_id": "eos_token_id",
}
FORCED = {"forced_bos_id": "forced_bos_token_id", "forced_eos_id": "forced_eos_token_id"}

_LABELS = ("LABEL_0", "LABEL_1", "LABEL_2")
DEFAULTS: dict[str, Any] = {  # of transformers' BartConfig
    **{"vocab_size": 50265, "d_model": 1024, "max_position_embeddings": 1024},
    **{"encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16},
    **{"decoder_layers": 12, "decoder_ffn_dim": 4096, "decoder_attention_heads": 16},
    **{"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "activation_function": "gelu"},
    **{"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0},
    **{"classifier_dropout": 0.0, "init_std": 0.02, "scale_embedding": False},
    **{"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1},
    **{"decoder_start_token_id": 2, "forced_eos_token_id": 2, "tie_word_embeddings": True},
    **{"is_encoder_decoder": True, "is_decoder": False, "use_cache": True},
    "id2label": dict(enumerate(_LABELS)),
    "label2id": {label: i for i, label in enumerate(_LABELS)},
}


@dataclass(frozen=True)
class BARTQuirks(ActivationQuirks):
    """What the template depends on besides sizes.

    scale_embedding: whether rows of the table of tokens are multiplied by the root of embed_dim.
    """

    scale_embedding: bool

    @property
    def scale(self) -> str:
        """What follows a row of the table of tokens."""
        return " * self.config.embed_dim**0.5" if self.scale_embedding else ""


def _read(config: Any) -> Settings:
    check_equal(
        config,
        decoder_ffn_dim=config.encoder_ffn_dim,
        decoder_attention_heads=config.encoder_attention_heads,
        tie_word_embeddings=True,
        **{"normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False},
        static_position_embeddings=False,
    )
    sizes = read_keys(config, KEYS)
    for field in ("start_id", "pad_id", "eos_id"):
        if not isinstance(sizes[field], int):
            refuse(config, f"{KEYS[field]} is {sizes[field]!r}, and redco needs one token")
    for field, key in FORCED.items():
        forced = getattr(config, key, None)
        sizes[field] = -1 if forced is None else forced
    activation = read_activation(config, "activation_function")
    quirks = BARTQuirks(activation, scale_embedding=config.scale_embedding)
    return Settings(sizes, quirks, config.max_position_embeddings)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.encoder_attention_heads, config.encoder_attention_heads, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "d_model": 16 * heads,
        **{"encoder_ffn_dim": 64 * heads, "decoder_ffn_dim": 64 * heads},
        **{"encoder_layers": 2, "decoder_layers": 2},
        **{"encoder_attention_heads": heads, "decoder_attention_heads": heads},
        "max_position_embeddings": 256,
        # Those of the tokenizer "bytes", which begins no text with a token of its own.
        **{"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
        **{"bos_token_id": None, "forced_bos_token_id": None, "forced_eos_token_id": 1},
    }


# Lewis et al. 2020, section 4; as in the config.json of the checkpoints.
BASE = {
    **{"d_model": 768, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072},
    **{"encoder_layers": 6, "decoder_layers": 6},
    **{"encoder_attention_heads": 12, "decoder_attention_heads": 12},
}

FAMILY = Family(
    name="bart",
    title="BART",
    model_type="bart",
    architecture="BartForConditionalGeneration",
    template="bart",
    model_class="BART",
    recipes=("seq2seq",),
    provides=ENCODER_DECODER,
    sizes={
        "base": Size(BASE, "facebook/bart-base"),
        "large": Size({}, "facebook/bart-large"),
        "large-cnn": Size(
            {"vocab_size": 50264, "forced_bos_token_id": 0}, "facebook/bart-large-cnn"
        ),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=BARTQuirks,
    dropout={
        **dict.fromkeys(("embed", "residual"), "dropout"),
        **{"weights": "attention_dropout", "inner": "activation_dropout"},
    },
)
