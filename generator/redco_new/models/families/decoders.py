"""What the decoders with rotary positions and RMS norms have in common: reading, and tiny ones."""

from typing import Any

from redco_new.models.family import Settings, check_equal, read_keys, refuse
from redco_new.models.rope import read_rope
from redco_new.models.tiny import tiny_heads, tiny_mlp, tiny_vocab

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
DERIVED = ("rope_parameters", "layer_types")
LONGEST = 4096  # tokens of a training example by default, where the model allows more


def read_decoder(config: Any, keys: dict[str, str], **quirks: Any) -> Settings:
    """The settings of a decoder; quirks: that differ from those of Llama."""
    check_equal(config, hidden_act="silu")
    rope, fields = read_rope(config)
    sizes = read_keys(config, keys) | fields
    if sizes.get("head_dim") is None:
        sizes["head_dim"] = config.hidden_size // config.num_attention_heads
    partial = config.rope_parameters.get("partial_rotary_factor", 1.0)
    if partial != 1.0:
        sizes |= {"rotary_dim": int(sizes["head_dim"] * partial)}
    if window := read_window(config):
        sizes |= {"window": window}
    found = {
        "rope": rope,
        "partial": partial != 1.0,
        "window": "window" in sizes,
        "tied": config.tie_word_embeddings,
        "grouped": config.num_key_value_heads < config.num_attention_heads,
        **dict.fromkeys(("qkv_bias", "o_bias", "mlp_bias", "qk_norm", "experts", "fused"), False),
    }
    length = min(config.max_position_embeddings, LONGEST)
    return Settings(sizes, found | quirks, length)


def read_window(config: Any) -> int:
    """Tokens that a token attends to, in every layer; 0: all before it."""
    window = getattr(config, "sliding_window", None) or 0
    kinds = set(getattr(config, "layer_types", None) or ())
    if len(kinds) > 1:
        refuse(config, f"its layers differ: {', '.join(sorted(kinds))}")
    return window if window < config.max_position_embeddings else 0


def shrink_decoder(config: Any, shards: int) -> dict[str, Any]:
    """Two layers of heads of 16 features; rotations and windows that the lengths of tests reach."""
    heads, kv_heads = tiny_heads(config.num_attention_heads, config.num_key_value_heads, shards)
    found = {
        "vocab_size": tiny_vocab(config.vocab_size, shards),
        "hidden_size": 16 * heads,
        "intermediate_size": tiny_mlp(config.intermediate_size, 16 * heads, shards),
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 16,
        "max_position_embeddings": 256,
        "rope_parameters": tiny_rope(config.rope_parameters),
    }
    if getattr(config, "layer_types", None):
        found["layer_types"] = config.layer_types[:2]
    return found | {"sliding_window": 64} if read_window(config) else found


def shrink_even(config: Any, shards: int) -> dict[str, Any]:
    """The same of a model without `head_dim`: its heads divide `hidden_size` evenly."""
    return {k: v for k, v in shrink_decoder(config, shards).items() if k != "head_dim"}


def tiny_rope(given: dict[str, Any]) -> dict[str, Any]:
    """The same rotations for heads of 16 features and texts of 256 tokens."""
    found = dict(given)
    if "original_max_position_embeddings" in found:
        found["original_max_position_embeddings"] = 64
    rates = int(16 * found.get("partial_rotary_factor", 1.0)) // 2
    for key in ("short_factor", "long_factor"):
        if key in found:
            found[key] = (found[key] * rates)[:rates]
    return found
