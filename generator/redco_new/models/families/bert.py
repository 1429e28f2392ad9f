"""BERT, with its masked language model's head."""

from typing import Any

from redco_new.models.family import ActivationQuirks, Family, MASKED, Settings, Size
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
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ActivationQuirks,
    order=150,
)
