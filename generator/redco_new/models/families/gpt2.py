"""GPT-2."""

from typing import Any

from redco_new.models.family import CAUSAL, ActivationQuirks, Family, Gguf, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys
from redco_new.models.tiny import tiny_heads, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "n_embd",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "max_positions": "n_positions",
    "layer_norm_epsilon": "layer_norm_epsilon",
}

DEFAULTS: dict[str, Any] = {  # of transformers' GPT2Config
    **{"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
    **{"n_inner": None, "activation_function": "gelu_new"},
    **{"resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1, "summary_first_dropout": 0.1},
    **{"summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None},
    **{"summary_proj_to_labels": True, "add_cross_attention": False},
    **{"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    **{"reorder_and_upcast_attn": False, "layer_norm_epsilon": 1e-5, "initializer_range": 0.02},
    **{"bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": None},
    **{"tie_word_embeddings": True, "use_cache": True},
}


def _read(config: Any) -> Settings:
    check_equal(
        config,
        tie_word_embeddings=True,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    sizes = read_keys(config, KEYS) | {"mlp_dim": config.n_inner or 4 * config.n_embd}
    quirks = ActivationQuirks(read_activation(config, "activation_function"))
    return Settings(sizes, quirks, config.n_positions)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.n_head, config.n_head, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "n_embd": 16 * heads,
        "n_inner": 64 * heads,
        "n_layer": 2,
        "n_head": heads,
        "n_positions": 256,
    }


def _size(name: str, embed_dim: int, layers: int, heads: int) -> Size:
    sizes = {"n_embd": embed_dim, "n_layer": layers, "n_head": heads}
    return Size(sizes, f"openai-community/{name}")


FAMILY = Family(
    name="gpt2",
    title="GPT-2",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    template="gpt2",
    model_class="GPT2",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes={  # Radford et al. 2019, table 2
        "small": _size("gpt2", 768, 12, 12),
        "medium": _size("gpt2-medium", 1024, 24, 16),
        "large": _size("gpt2-large", 1280, 36, 20),
        "xl": _size("gpt2-xl", 1600, 48, 25),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=ActivationQuirks,
    dropout={"embed": "embd_pdrop", "residual": "resid_pdrop", "weights": "attn_pdrop"},
    gguf=Gguf("gpt2", "transposed"),
)
