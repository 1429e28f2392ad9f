"""Lists of a config of transformers that its other keys imply, such as the kind of each layer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def without_implied(config_class: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys of a config.json without the lists that it has without them too: with these its layers can be no more, and no fewer."""
    return {k: v for k, v in keys.items() if not _is_implied(config_class, keys, k)}


def _is_implied(config_class: Any, keys: Mapping[str, Any], key: str) -> bool:
    if not isinstance(keys[key], list | tuple):
        return False
    try:
        config = config_class(**copy.deepcopy({k: v for k, v in keys.items() if k != key}))
    except Exception:  # whatever transformers checks
        return False
    value = getattr(config, key, None)
    return isinstance(value, list | tuple) and [*value] == [*keys[key]]
