"""Recurrences that a class of transformers has in two forms: over chunks of a text, and over its tokens.

The latter is printed, as a scan: that over chunks has another program for each number of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import patch

CHUNKS, STEPS = "chunk", "recurrent"  # in the names of both forms


def by_steps(forward: Callable[..., Any], of: ModuleType) -> Callable[..., Any]:
    """Return a forward that computes its recurrences token by token, where its source has that form too."""
    functions = {name: x for name, x in vars(of).items() if callable(x)}
    twins = {
        name: functions.get(name.replace(CHUNKS, STEPS)) for name in functions if CHUNKS in name
    }
    forms = {name: twin for name, twin in twins.items() if twin is not None}
    if not forms:
        return forward

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with patch.multiple(of, **forms):
            return forward(*args, **kwargs)

    return wrapped
