"""Rotary positions, as a transformers config describes them."""

import math
from typing import Any

from redco_new.models.family import refuse

KINDS = ("default", "linear", "llama3", "longrope")


def read_rope(config: Any) -> tuple[str, dict[str, Any]]:
    """(kind, the fields of the emitted config class that it needs).

    rope_factor: by which rotations are slowed.  rope_low, rope_high: turns within the original
    length, between which that goes from whole to none (Llama 3).  rope_short, rope_long, rope_scale:
    of LongRoPE (Ding et al. 2024).  Raises RedcoError for a kind that is none of KINDS.
    """
    given = config.rope_parameters
    kind = given.get("rope_type", "default")
    fields = {"rope_theta": given["rope_theta"]}
    if kind == "linear":
        fields |= {"rope_factor": given["factor"]}
    elif kind == "llama3":
        fields |= {
            "rope_factor": given["factor"],
            "rope_low": given["low_freq_factor"],
            "rope_high": given["high_freq_factor"],
            "original_positions": given["original_max_position_embeddings"],
        }
    elif kind == "longrope":
        fields |= read_longrope(config, given)
    elif kind != "default":
        refuse(config, f"rope_type is {kind!r}, and redco has {', '.join(KINDS)}")
    return kind, fields


def read_longrope(config: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of LongRoPE; its scale as transformers works it out where it is not given."""
    original = given.get("original_max_position_embeddings")
    original = original or config.original_max_position_embeddings
    factor = given.get("factor") or config.max_position_embeddings / original
    scale = given.get("attention_factor")
    if scale is None:
        scale = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return {
        "rope_short": tuple(given["short_factor"]),
        "rope_long": tuple(given["long_factor"]),
        "rope_scale": scale,
        "original_positions": original,
    }
