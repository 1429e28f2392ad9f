"""What the families of rotary decoders share: quirks, reading config.json, and tiny models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from types import SimpleNamespace
from typing import Annotated, Any

from redco_new.models.family import GroupedQuirks, Settings
from redco_new.models.hf_config import check_equal, read_keys, refuse
from redco_new.models.tiny import tiny_heads, tiny_mlp, tiny_vocab
from redco_new.render.values import Name, one_of

KEYS = {
    "vocab_size": "vocab_size",
    "embed_dim": "hidden_size",
    "mlp_dim": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "max_positions": "max_position_embeddings",
    "norm_epsilon": "rms_norm_eps",
}
KEYS_AND_HEAD = {**KEYS, "head_dim": "head_dim"}
# What most of transformers' classes of such decoders say by default; a family has what differs.
DEFAULTS: dict[str, Any] = {
    **{"vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32},
    **{"num_attention_heads": 32, "hidden_act": "silu", "rms_norm_eps": 1e-6},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None},
    **{"attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True},
    "tie_word_embeddings": False,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
}

# Tokens of a training example by default, where the model allows more: the context of Llama 2. It
# trades memory of activations, which grows with it, for context; redco.toml's owner may raise it.
LONGEST = 4096

# ROPES of shared/rope.jinja.
ROPE_KINDS = ("default", "dynamic", "linear", "llama3", "longrope", "yarn")

# Of YaRN: keys of rope_parameters that a checkpoint may leave out, what they are then in transformers, and those that
# some have -> whether weights.py writes them too.
BETAS = {"beta_fast": 32.0, "beta_slow": 1.0}
_STATED = one_of(
    frozenset(
        " ".join(keys) for n in range(4) for keys in combinations((*BETAS, "attention_factor"), n)
    )
)

_BIAS = ", use_bias=True"


@dataclass(frozen=True)
class DecoderQuirks(GroupedQuirks):
    """What the templates `decoder` and `experts` depend on besides sizes; defaults as in Llama.

    rope: of ROPES in templates/models/shared/rope.jinja.
    rope_stated: the keys of YaRN that the checkpoint states, of those that may be left out.
    rotation: of ROTATIONS there: whether the whole of a head is rotated, or a part.
    attend: of ATTENDS in shared/cached_decoder.jinja: whether tokens attend to all before them, or to a window.
    own_head: whether logits have a table of their own, not that of the embedding.
    grouped: whether there are fewer key and value heads than query heads.
    qkv_bias, o_bias, mlp_bias: whether these linear layers have a bias.
    qk_norm: whether queries and keys are normed, each head by itself.
    tensors: of TENSORS in shared/tensors.jinja: whether checkpoints fuse kernels.
    """

    rope: Name = "default"
    rope_stated: Annotated[str, _STATED] = ""
    rotation: Name = "whole"
    attend: Name = "causal"
    own_head: bool = True
    grouped: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tensors: Name = "apart"

    @property
    def heads(self) -> str:
        """What the heads are called, for people."""
        return "grouped heads" if self.grouped else "heads"

    @property
    def q_options(self) -> str:
        """Further arguments of the linear layers of queries, keys and values."""
        return _BIAS if self.qkv_bias else ""

    @property
    def o_options(self) -> str:
        """Further arguments of the linear layer of attention's output."""
        return _BIAS if self.o_bias else ""

    @property
    def mlp_options(self) -> str:
        """Further arguments of the linear layers of the MLP."""
        return _BIAS if self.mlp_bias else ""

    @property
    def bias_parameter(self) -> str:
        """A parameter of `_linear`, where some linear layers have a bias."""
        return ", use_bias=False" if self.qkv_bias or self.o_bias or self.mlp_bias else ""

    @property
    def use_bias(self) -> str:
        """An expression in `_linear`: whether a linear layer has a bias."""
        return "use_bias" if self.bias_parameter else "False"

    @property
    def norm(self) -> str:
        """The constructor of the norms of queries and keys, "" where there are none."""
        return "_norm(config, H, rngs)" if self.qk_norm else ""

    @property
    def norm_call(self) -> str:
        """A statement that norms queries and keys, "" where nothing does."""
        call = "q_BSNH, k_BSKH = _normed(self.q_ln, q_BSNH), _normed(self.k_ln, k_BSKH)"
        return call if self.qk_norm else ""


def read_decoder(
    config: Any, keys: dict[str, str], kind: type[DecoderQuirks] = DecoderQuirks, **quirks: Any
) -> Settings:
    """Return the settings of a decoder.

    kind: class of its quirks.
    quirks: fields of it that differ from Llama's.
    Raises RedcoError for what the template does not honour.
    """
    check_equal(config, hidden_act="silu")
    rope, fields = _read_rope(config)
    sizes = read_keys(config, keys) | fields
    if sizes.get("head_dim") is None:
        sizes["head_dim"] = config.hidden_size // config.num_attention_heads
    partial = config.rope_parameters.get("partial_rotary_factor", 1.0)
    if partial != 1.0:
        sizes |= {"rotary_dim": int(sizes["head_dim"] * partial)}
    if window := _read_window(config):
        sizes |= {"window": window}
    return Settings(
        sizes,
        kind(
            rope=rope,
            rope_stated=_stated(config.rope_parameters) if rope == "yarn" else "",
            rotation="part" if partial != 1.0 else "whole",
            attend="window" if window else "causal",
            own_head=not config.tie_word_embeddings,
            grouped=config.num_key_value_heads < config.num_attention_heads,
            **quirks,
        ),
        min(config.max_position_embeddings, LONGEST),
    )


def _read_window(config: Any) -> int:
    """Return how many tokens a token attends to; 0: all before it. Raises RedcoError."""
    window = getattr(config, "sliding_window", None) or 0
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) > 1:
        refuse(config, f"its layers differ: {', '.join(sorted(kinds))}")
    return window if window < config.max_position_embeddings else 0


def _read_rope(config: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of rotary positions, and the fields of the config class that it needs.

    rope_theta: the slowest rotation.
    rope_factor: by which rotations are slowed; of "dynamic", as the length of texts says.
    rope_low, rope_high: turns within the original length, between which that goes from whole to
        none (Llama 3.1).
    rope_short, rope_long, rope_scale: of LongRoPE (Ding et al. 2024).
    Raises RedcoError for a kind that is none of ROPE_KINDS.
    """
    rope = config.rope_parameters
    kind = rope.get("rope_type", "default")
    fields = {"rope_theta": rope["rope_theta"]}
    if kind in ("linear", "dynamic"):
        fields |= {"rope_factor": rope["factor"]}
        if kind == "dynamic":
            original = config.max_position_embeddings
            longest = int(rope["factor"] * original)  # what it slows rotations for
            fields |= {"original_positions": original, "max_positions": longest}
    elif kind == "llama3":
        fields |= {
            "rope_factor": rope["factor"],
            "rope_low": rope["low_freq_factor"],
            "rope_high": rope["high_freq_factor"],
            "original_positions": rope["original_max_position_embeddings"],
        }
    elif kind == "longrope":
        fields |= _read_longrope(config, rope)
    elif kind == "yarn":
        fields |= _read_yarn(config, rope)
    elif kind != "default":
        refuse(config, f"rope_type is {kind!r}, and redco has {', '.join(ROPE_KINDS)}")
    return kind, fields


def _read_longrope(config: Any, rope: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of LongRoPE; its scale, where none is stated, as in transformers."""
    original = rope.get("original_max_position_embeddings")
    original = original or config.original_max_position_embeddings
    factor = rope.get("factor") or config.max_position_embeddings / original
    scale = rope.get("attention_factor")
    if scale is None:  # Ding et al. 2024, section 3.2, as transformers has it
        scale = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return {
        "rope_short": tuple(rope["short_factor"]),
        "rope_long": tuple(rope["long_factor"]),
        "rope_scale": scale,
        "original_positions": original,
    }


def _read_yarn(config: Any, rope: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of YaRN (Peng et al. 2023), as transformers has it. Raises RedcoError.

    rope_factor: by which slow rotations are slowed.
    rope_fast, rope_slow: turns in the original length, between which that goes from none to whole.
    rope_scale: of the rotated features; where none is stated, as in section 3.4 there.
    """
    factor, original = rope.get("factor"), rope.get("original_max_position_embeddings")
    if not factor or not original:
        refuse(config, "rope_parameters of yarn lack factor, or original_max_position_embeddings")
    if factor < 1:
        refuse(config, f"the factor of yarn is {factor!r}, and not 1 or more")
    check_equal(SimpleNamespace(**vars(config) | rope), mscale=None, mscale_all_dim=None)
    check_equal(SimpleNamespace(**vars(config) | rope), truncate=True)
    scale = rope.get("attention_factor")
    fast, slow = (float(rope.get(key) or value) for key, value in BETAS.items())
    return {
        "rope_factor": factor,
        "rope_fast": fast,
        "rope_slow": slow,
        "rope_scale": 0.1 * math.log(factor) + 1 if scale is None else scale,
        "original_positions": original,
    }


def _stated(rope: dict[str, Any]) -> str:
    """Return the keys of YaRN that may be left out, and are not."""
    return " ".join(key for key in (*BETAS, "attention_factor") if rope.get(key))


def shrink_decoder(config: Any, shards: int) -> dict[str, Any]:
    """Return keyword arguments of a tiny decoder: two layers, of heads of 16 features.

    Rotations and windows are such that the lengths of tests reach them.
    """
    heads, kv_heads = tiny_heads(config.num_attention_heads, config.num_key_value_heads, shards)
    tiny = {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "intermediate_size": tiny_mlp(config.intermediate_size, 16 * heads, shards),
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 256,
        "rope_parameters": _tiny_rope(config.rope_parameters),
    }
    if hasattr(config, "head_dim"):  # else heads divide hidden_size evenly
        tiny["head_dim"] = 16
    if getattr(config, "layer_types", None):
        tiny["layer_types"] = config.layer_types[:2]
    return tiny | {"sliding_window": 64} if _read_window(config) else tiny


def _tiny_rope(rope: dict[str, Any]) -> dict[str, Any]:
    """Return the same rotations for heads of 16 features and texts of 256 tokens."""
    tiny = dict(rope)
    if "original_max_position_embeddings" in tiny:
        tiny["original_max_position_embeddings"] = 64
    rates = int(16 * tiny.get("partial_rotary_factor", 1.0)) // 2
    for key in ("short_factor", "long_factor"):
        if key in tiny:
            tiny[key] = (tiny[key] * rates)[:rates]
    return tiny
