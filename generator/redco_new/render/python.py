"""Python as text: black's layout of it, and calls."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import black

from redco_new.errors import RedcoError

BLACK = black.Mode(line_length=100, target_versions={black.TargetVersion.PY311})
MEND = "mend the template"


@lru_cache(maxsize=256)  # an update prints a project twice, and most of it is the same
def format_python(path: str, text: str) -> str:
    """Return Python in black's layout. Raises RedcoError for `path` if it is not Python."""
    try:
        return black.format_str(text, mode=BLACK)
    except black.InvalidInput as error:
        what = " ".join(f"rendered, it is not Python: {error}".split())
        raise RedcoError(path, what, MEND) from error


def print_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call with keyword arguments, as Python."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
