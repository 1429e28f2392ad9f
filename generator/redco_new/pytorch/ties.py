"""Parameters that a class has under several names: one in the printed model."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from torch import nn


@functools.lru_cache(maxsize=8)
def tied_names(module: nn.Module) -> Mapping[str, str]:
    """Return the names of a module's parameters that an earlier one has too -> that one."""
    first: dict[int, str] = {}
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name:
            names[name] = other
    return names


def is_tied(module: nn.Module, path: str) -> bool:
    """Return whether a part has a parameter of another one: it is written out, as a function of that."""
    return any(
        f"{path}.{name}" in tied_names(module) for name in module.get_submodule(path)._parameters
    )
