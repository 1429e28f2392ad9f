"""GPT-NeoX and Pythia."""

from dataclasses import dataclass
from typing import Any

from redco_new.models.family import CAUSAL, ActivationQuirks, Family, Gguf, Settings, Size
from redco_new.models.hf_config import check_equal, read_activation, read_keys, refuse
from redco_new.models.tiny import tiny_heads, tiny_mlp, tiny_vocab

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "mlp_dim": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "max_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
}

DEFAULTS: dict[str, Any] = {  # of transformers' GPTNeoXConfig
    **{"vocab_size": 50432, "hidden_size": 6144, "intermediate_size": 24576},
    **{"num_hidden_layers": 44, "num_attention_heads": 64, "max_position_embeddings": 2048},
    **{"hidden_act": "gelu", "attention_bias": True, "use_parallel_residual": True},
    "rope_parameters": {
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
        "rope_type": "default",
    },
    **{"attention_dropout": 0.0, "hidden_dropout": 0.0, "classifier_dropout": 0.1},
    **{"layer_norm_eps": 1e-5, "initializer_range": 0.02, "use_cache": True, "is_decoder": False},
    **{"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None, "tie_word_embeddings": False},
}


@dataclass(frozen=True)
class NeoXQuirks(ActivationQuirks):
    """What the template depends on besides sizes.

    parallel: whether the MLP reads the input of attention, and not what attention adds to it.
    """

    parallel: bool = True


def _read(config: Any) -> Settings:
    check_equal(config, attention_bias=True, tie_word_embeddings=False)
    rope = config.rope_parameters
    if (kind := rope.get("rope_type", "default")) != "default":
        refuse(config, f"rope_type is {kind!r}, and redco's {config.model_type} has 'default'")
    head_dim = config.hidden_size // config.num_attention_heads
    rotary_dim = int(head_dim * rope["partial_rotary_factor"])
    if rotary_dim not in range(2, head_dim + 1, 2):
        limit = f"rotates an even number of the {head_dim} features of a head"
        refuse(config, f"partial_rotary_factor rotates {rotary_dim}, and redco {limit}")
    fields = {"rotary_dim": rotary_dim, "rope_theta": rope["rope_theta"]}
    activation = read_activation(config, "hidden_act")
    return Settings(
        read_keys(config, KEYS) | fields,
        NeoXQuirks(activation, config.use_parallel_residual),
        config.max_position_embeddings,
    )


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    heads, _ = tiny_heads(config.num_attention_heads, config.num_attention_heads, shards)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "intermediate_size": tiny_mlp(config.intermediate_size, 16 * heads, shards),
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "max_position_embeddings": 256,
        # Half of 16 features: another share of so few might be odd.
        "rope_parameters": config.rope_parameters | {"partial_rotary_factor": 0.5},
    }


def _size(name: str, vocab_size: int, embed_dim: int, layers: int, heads: int) -> Size:
    sizes = {
        "vocab_size": vocab_size,
        "hidden_size": embed_dim,
        "intermediate_size": 4 * embed_dim,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "eos_token_id": 0,  # the tokenizer's <|endoftext|>, which begins a text too
    }
    return Size(sizes, f"EleutherAI/{name}")


FAMILY = Family(
    name="gpt-neox",
    title="GPT-NeoX",
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    template="gpt_neox",
    model_class="GPTNeoX",
    alike=True,
    recipes=("lm",),
    provides=CAUSAL,
    sizes={  # Biderman et al. 2023, table 1; tables of tokens as in config.json
        "pythia-6.9b": _size("pythia-6.9b", 50432, 4096, 32, 32),
        "pythia-70m": _size("pythia-70m", 50304, 512, 6, 8),
        "pythia-160m": _size("pythia-160m", 50304, 768, 12, 12),
        "pythia-410m": _size("pythia-410m", 50304, 1024, 24, 16),
        "pythia-1b": _size("pythia-1b", 50304, 2048, 16, 8),
        "pythia-1.4b": _size("pythia-1.4b", 50304, 2048, 24, 16),
        "pythia-2.8b": _size("pythia-2.8b", 50304, 2560, 32, 32),
        "pythia-12b": _size("pythia-12b", 50688, 5120, 36, 40),
        # Black et al. 2022.
        "20b": Size({"hidden_act": "gelu_fast", "eos_token_id": 0}, "EleutherAI/gpt-neox-20b"),
    },
    defaults=DEFAULTS,
    keys=KEYS,
    read=_read,
    shrink=_shrink,
    quirks=NeoXQuirks,
    gguf=Gguf("gptneox", "parts_apart"),
)
