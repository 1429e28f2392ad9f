"""PyTorch where a project is made: whether it is needed, and there. This module imports it not."""

from __future__ import annotations

import inspect
import sys
from importlib import metadata
from typing import Any

from redco_new.errors import RedcoError
from redco_new.own.find import EXTRA, TORCH, Reference, without_torch

TRANSFORMERS = "5.24"  # whose classes are printed; pyproject.toml asks for it too


def is_torch(value: Any) -> bool:
    """Return whether an imported value is a class of PyTorch's modules."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return any((b.__module__, b.__name__) == ("torch.nn.modules.module", "Module") for b in bases)


def may_make_torch(value: Any) -> bool:
    """Return whether a value is a class of PyTorch's Sequential, or a function where PyTorch was imported that takes none of Flax's keys."""
    if isinstance(value, type):
        bases = [(base.__module__, base.__name__) for base in value.__mro__]
        return ("torch.nn.modules.container", "Sequential") in bases
    if not inspect.isroutine(value) or "torch" not in sys.modules:
        return False
    return "rngs" not in inspect.signature(value).parameters


def check_versions(reference: Reference) -> None:
    """Raise RedcoError where a class was imported with another PyTorch, or is of another transformers."""
    torch = metadata.version("torch")
    if not torch.startswith(f"{TORCH}."):  # what torch.export gives follows from the minor version
        raise without_torch(f"torch {torch}")
    if reference.module.partition(".")[0] != "transformers":
        return
    there = metadata.version("transformers")
    if not there.startswith(f"{TRANSFORMERS}."):
        what = f"a class of transformers is printed from {TRANSFORMERS}, and {there} is here"
        raise RedcoError("--model", what, f"pip install '{EXTRA}'")
