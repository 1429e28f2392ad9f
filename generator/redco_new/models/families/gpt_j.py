"""GPT-J."""

from typing import Any

from redco_new.models.family import CAUSAL, Family, Quirks, Settings, Size
from redco_new.models.hf_config import check_equal, read_keys
from redco_new.models.tiny import tiny_heads, tiny_mlp, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "n_embd",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "rotary_dim": "rotary_dim",
    "max_positions": "n_positions",
    "layer_norm_epsilon": "layer_norm_epsilon",
}

DEFAULTS: dict[str, Any] = {  # of transformers' GPTJConfig
    **{"vocab_size": 50400, "n_positions": 2048, "n_embd": 4096, "n_layer": 28, "n_head": 16},
    **{"rotary_dim": 64, "n_inner": None, "activation_function": "gelu_new"},
    **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    **{"layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "use_cache": True},
    **{"bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": None},
    "tie_word_embeddings": False,
}


def _read(config: Any) -> Settings:
    check_equal(config, activation_function="gelu_new", tie_word_embeddings=False)
    sizes = read_keys(config, KEYS) | {"mlp_dim": config.n_inner or 4 * config.n_embd}
    return Settings(sizes, Quirks(), config.n_positions)


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.n_head, config.n_head, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "n_embd": 16 * heads,
        "n_inner": tiny_mlp(config.n_inner or 4 * config.n_embd, 16 * heads, shards),
        "n_layer": 2,
        "n_head": heads,
        "rotary_dim": 8,
        "n_positions": 256,
    }


FAMILY = Family(
    name="gpt-j",
    title="GPT-J",
    model_type="gptj",
    architecture="GPTJForCausalLM",
    template="gpt_j",
    model_class="GPTJ",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    # Wang and Komatsuzaki 2021: the defaults of transformers.
    sizes={"6b": Size({}, "EleutherAI/gpt-j-6b")},
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
)
