"""What the values of a config.json must be, before a family reads them: numbers, in range, that fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redco_new.models.family import Family
from redco_new.models.hf_config import refuse
from redco_new.render.values import is_number

_ROPE = "rope_parameters"
_ROPE_KINDS = ("rope_type", "type")  # its keys that hold a text
_ABOVE_0 = ("factor", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings")


def check_values(config: Any, family: Family) -> None:
    """Refuse sizes and rotations that are no finite numbers, counts below 1, and heads that do not divide.

    config: with the keys of config.json as attributes.
    Raises RedcoError, which names the key.
    """
    for field, key in family.keys.items():
        if not field.endswith("_id"):
            _check_size(config, key, getattr(config, key, None), family.defaults.get(key))
    _check_rope(config, getattr(config, _ROPE, None), _ROPE)
    _check_heads(config, family.keys)


def _check_size(config: Any, key: str, value: Any, default: Any) -> None:
    """Refuse what is no number of the kind of `default`; a key without one may be left out."""
    if value is None and default is None:
        return
    if isinstance(default, float):
        if not is_number(value) or value < 0:
            refuse(config, f"{key} is {value!r}, and not a finite number from 0")
    elif type(value) is not int or value < 1:
        refuse(config, f"{key} is {value!r}, and not a whole number from 1")


def _check_rope(config: Any, value: Any, path: str) -> None:
    """Refuse rotations that hold anything but kinds and finite numbers from 0."""
    name = path.rsplit(".", 1)[-1]
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_rope(config, item, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_rope(config, item, path)
    elif name in _ROPE_KINDS:
        if not isinstance(value, str):
            refuse(config, f"{path} is {value!r}, and not the name of a kind")
    elif value is not None and type(value) is not bool:
        if not is_number(value) or value < 0 or (value == 0 and name in _ABOVE_0):
            refuse(config, f"{path} is {value!r}, and not a finite number above 0")


def _check_heads(config: Any, keys: Mapping[str, str]) -> None:
    """Refuse heads that do not divide the features, or heads of keys that do not divide the others."""
    sizes = {field: getattr(config, key, None) for field, key in keys.items()}
    heads, kv_heads, dim = (sizes.get(k) for k in ("num_heads", "num_kv_heads", "embed_dim"))
    head_dim = sizes.get("head_dim")
    if kv_heads and heads and heads % kv_heads:
        named = f"{keys['num_heads']} is {heads} and {keys['num_kv_heads']} {kv_heads}"
        refuse(config, f"{named}, which does not divide it")
    if heads and dim and head_dim is None and dim % heads:
        named = f"{keys['embed_dim']} is {dim} and {keys['num_heads']} {heads}"
        refuse(config, f"{named}, which does not divide it")
    experts, chosen = sizes.get("num_experts"), sizes.get("experts_per_token")
    if experts and chosen and chosen > experts:
        named = f"{keys['experts_per_token']} is {chosen} and {keys['num_experts']} {experts}"
        refuse(config, f"{named}, of which a token has so many")
    if head_dim and head_dim % 2 and getattr(config, _ROPE, None):
        refuse(config, f"head_dim is {head_dim}, and rotary positions turn pairs of features")
