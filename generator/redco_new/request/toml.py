"""Plain data as TOML writes it."""

import json
import re
import tomllib
from typing import Any

from redco_new.errors import RedcoError


def read_toml(where: str, text: str) -> dict[str, Any]:
    """Return what a text of TOML says. Raises RedcoError for what is none, or nested too deep to be read."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise RedcoError(where, "not TOML: it is nested too deep", "mend it") from error
    except ValueError as error:  # of numbers with too many digits too
        raise RedcoError(where, f"not TOML: {error}", "mend that line") from error


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
