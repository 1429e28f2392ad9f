"""Plain data as TOML writes it."""

import json
import re
from typing import Any


def value_text(value: Any) -> str:
    """Return plain data as TOML writes it, in one line."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key_text(k)} = {value_text(v)}" for k, v in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_text(key: str) -> str:
    """Return a key as TOML writes it: quoted where it must be."""
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else value_text(key)
