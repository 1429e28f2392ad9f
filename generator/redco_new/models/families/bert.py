"""BERT, with its masked language model's head."""

from typing import Any

from redco_new.models.family import HEAD, MASKED, ActivationQuirks, Family, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys
from redco_new.models.tiny import tiny_heads, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "mlp_dim": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_positions": "max_position_embeddings",
    "num_types": "type_vocab_size",
    "layer_norm_epsilon": "layer_norm_eps",
}

DEFAULTS: dict[str, Any] = {  # of transformers' BertConfig
    **{"vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072},
    **{"num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512},
    **{"type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
    **{"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1},
    **{"classifier_dropout": None, "initializer_range": 0.02, "use_cache": True},
    **{"is_decoder": False, "add_cross_attention": False, "tie_word_embeddings": True},
    **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0},
}


def _read(config: Any) -> Settings:
    check_equal(
        config,
        tie_word_embeddings=True,
        position_embedding_type="absolute",
        is_decoder=False,
        add_cross_attention=False,
    )
    quirks = ActivationQuirks(read_activation(config, "hidden_act"))
    return Settings(read_keys(config, KEYS), quirks, config.max_position_embeddings)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.num_attention_heads, config.num_attention_heads, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "intermediate_size": 64 * heads,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "max_position_embeddings": 256,
    }


# Devlin et al. 2019, section 3; base is transformers' default.
BASE: dict[str, Any] = {}
LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}

FAMILY = Family(
    name="bert",
    title="BERT",
    model_type="bert",
    architecture="BertForMaskedLM",
    template="bert",
    model_class="BERT",
    recipes=("mlm",),
    provides=MASKED,
    sizes={
        "base": Size(BASE, "google-bert/bert-base-uncased"),
        "large": Size(LARGE, "google-bert/bert-large-uncased"),
        "base-cased": Size(BASE | {"vocab_size": 28996}, "google-bert/bert-base-cased"),
        "large-cased": Size(LARGE | {"vocab_size": 28996}, "google-bert/bert-large-cased"),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ActivationQuirks,
    dropout={
        **dict.fromkeys(("embed", "residual"), "hidden_dropout_prob"),
        "weights": "attention_probs_dropout_prob",
        HEAD: "classifier_dropout",  # null: as what layers add
    },
)
