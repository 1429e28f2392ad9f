"""Gemma 2 and Gemma 3 (its models of text)."""

from dataclasses import dataclass
from typing import Any

from redco_new.models.decoders import KEYS_AND_HEAD, LONGEST
from redco_new.models.family import CAUSAL, Family, Gguf, GroupedQuirks, Settings, Size
from redco_new.models.hf_config import check_equal, read_keys, refuse
from redco_new.models.tiny import tiny_heads, tiny_mlp, tiny_vocab

KEYS = {**KEYS_AND_HEAD, "query_scalar": "query_pre_attn_scalar", "window": "sliding_window"}
KEYS_2 = {**KEYS, "score_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping"}
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def _layer_types(layers: int, period: int) -> list[str]:
    """Return the kinds of layers of which each that ends a period attends to everything."""
    return [LOCAL if (i + 1) % period else GLOBAL for i in range(layers)]


_SHARED: dict[str, Any] = {
    **{"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26},
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
    **{"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False},
    **{"query_pre_attn_scalar": 256, "sliding_window": 4096, "rms_norm_eps": 1e-6},
    **{"attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True},
    **{"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "tie_word_embeddings": True},
}
DEFAULTS_2 = {  # of transformers' Gemma2Config
    **_SHARED,
    **{"vocab_size": 256000, "max_position_embeddings": 8192},
    "layer_types": _layer_types(26, 2),
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    **{"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0},
    "use_bidirectional_attention": None,
}
DEFAULTS_3 = {  # of transformers' Gemma3TextConfig
    **_SHARED,
    **{"vocab_size": 262208, "max_position_embeddings": 131072},
    **{"layer_types": _layer_types(26, 6), "_sliding_window_pattern": 6},
    "rope_parameters": {
        LOCAL: {"rope_type": "default", "rope_theta": 10000.0},
        GLOBAL: {"rope_type": "default", "rope_theta": 1000000.0},
    },
    **{"final_logit_softcapping": None, "attn_logit_softcapping": None},
    "use_bidirectional_attention": False,
}


@dataclass(frozen=True)
class GemmaQuirks(GroupedQuirks):
    """What the template depends on besides sizes.

    caps: whether scores and logits are bent to stay below a cap (Gemma 2); elsewhere queries and
        keys are normed, and rotations in a window differ from the others (Gemma 3).
    slower: whether rotations that are not in a window are slowed.
    """

    caps: bool = False
    slower: bool = False

    @property
    def norm(self) -> str:
        """The constructor of the norms of queries and keys, "" where there are none."""
        return "" if self.caps else "Norm(config, H)"

    @property
    def norm_call(self) -> str:
        """A statement that norms queries and keys, "" where nothing does."""
        return "" if self.caps else "q_BSNH, k_BSKH = self.q_ln(q_BSNH), self.k_ln(k_BSKH)"

    @property
    def far_positions(self) -> str:
        """The positions by which a layer without a window rotates."""
        return "positions_BS / c.rope_factor" if self.slower else "positions_BS"

    @property
    def rope(self) -> str:
        """Which of ROPES in templates/models/gemma/weights.py.jinja: the rotations in config.json."""
        return "one" if self.caps else "slowed" if self.slower else "two"


def _gemma(
    layers: int, embed: int, mlp: int, heads: int, kv_heads: int, head: int, **changes: Any
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": embed,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        **changes,
    }


_SMALL_3 = {"vocab_size": 262144, "sliding_window": 512, "max_position_embeddings": 32768}

# Gemma Team 2024, table 1; as in the config.json of the checkpoints.
SIZES_2 = {
    "2b": Size(_gemma(26, 2304, 9216, 8, 4, 256), "google/gemma-2-2b"),
    "9b": Size(
        _gemma(42, 3584, 14336, 16, 8, 256, layer_types=_layer_types(42, 2)), "google/gemma-2-9b"
    ),
    "27b": Size(
        _gemma(46, 4608, 36864, 32, 16, 128, layer_types=_layer_types(46, 2))
        | {"query_pre_attn_scalar": 144},
        "google/gemma-2-27b",
    ),
}
# Gemma Team 2025, table 1; as in the config.json of the checkpoints.
SIZES_3 = {
    "1b": Size(_gemma(26, 1152, 6912, 4, 1, 256, **_SMALL_3), "google/gemma-3-1b-pt"),
    "270m": Size(
        _gemma(18, 640, 2048, 4, 1, 256, layer_types=_layer_types(18, 6), **_SMALL_3),
        "google/gemma-3-270m",
    ),
}


def _read_2(config: Any) -> Settings:
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default":
        refuse(config, f"rope_type is {rope['rope_type']!r}, and redco's gemma2 has 'default'")
    return _read(config, KEYS_2, {"rope_theta": rope["rope_theta"]}, caps=True)


def _read_3(config: Any) -> Settings:
    check_equal(
        config,
        attn_logit_softcapping=None,
        final_logit_softcapping=None,
        use_bidirectional_attention=False,
    )
    near, far = (config.rope_parameters[kind] for kind in (LOCAL, GLOBAL))
    sizes = {"local_theta": near["rope_theta"], "rope_theta": far["rope_theta"]}
    kinds = (near.get("rope_type", "default"), far.get("rope_type", "default"))
    if kinds not in (("default", "default"), ("default", "linear")):
        refuse(config, f"rope_type is {kinds[1]!r}, and redco's gemma3 has 'default' and 'linear'")
    if slower := kinds[1] == "linear":
        sizes["rope_factor"] = far["factor"]
    return _read(config, KEYS, sizes, slower=slower)


def _read(config: Any, keys: dict[str, str], rope: dict[str, Any], **quirks: bool) -> Settings:
    check_equal(
        config,
        hidden_activation="gelu_pytorch_tanh",
        attention_bias=False,
        tie_word_embeddings=True,
    )
    sizes = read_keys(config, keys) | rope | {"global_every": _period(config)}
    return Settings(sizes, GemmaQuirks(**quirks), min(config.max_position_embeddings, LONGEST))


def _period(config: Any) -> int:
    """Return of how many layers the last attends to everything, and the others to a window."""
    kinds = list(config.layer_types)
    period = kinds.index(GLOBAL) + 1 if GLOBAL in kinds else len(kinds) + 1
    if kinds != _layer_types(len(kinds), period):
        refuse(config, "layer_types follow no period")
    return period


def _shrink(config: Any, shards: int) -> dict[str, Any]:
    """Return keyword arguments of a tiny model: one period of layers, of heads of 16 features."""
    heads, kv_heads = tiny_heads(config.num_attention_heads, config.num_key_value_heads, shards)
    period = _period(config)
    return {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "intermediate_size": tiny_mlp(config.intermediate_size, 16 * heads, shards),
        "num_hidden_layers": period,
        "layer_types": _layer_types(period, period),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "max_position_embeddings": 256,
        "sliding_window": 64,
    }


GEMMA_2 = Family(
    name="gemma2",
    title="Gemma 2",
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    template="gemma",
    model_class="Gemma2",
    recipes=("lm",),
    provides=CAUSAL,
    sizes=SIZES_2,
    defaults=DEFAULTS_2,
    keys=KEYS_2,
    read=_read_2,
    shrink=_shrink,
    quirks=GemmaQuirks,
    gguf=Gguf("gemma2", "plus_one"),
)
GEMMA_3 = Family(
    name="gemma3",
    title="Gemma 3",
    model_type="gemma3_text",
    architecture="Gemma3ForCausalLM",
    template="gemma",
    model_class="Gemma3",
    recipes=("lm",),
    provides=CAUSAL,
    sizes=SIZES_3,
    defaults=DEFAULTS_3,
    keys=KEYS,
    read=_read_3,
    shrink=_shrink,
    quirks=GemmaQuirks,
    gguf=Gguf("gemma3", "plus_one"),
)
