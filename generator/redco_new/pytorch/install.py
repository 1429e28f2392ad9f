"""PyTorch where a project is made: whether it is needed, and there. This module imports it not."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from redco_new.errors import RedcoError

VERSION = "2.13"  # what torch.export gives follows from the minor version
EXTRA = "redco-new[torch]"


def is_torch(value: Any) -> bool:
    """Return whether an imported value is a class of PyTorch's modules."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return any((b.__module__, b.__name__) == ("torch.nn.modules.module", "Module") for b in bases)


def check_torch(where: str = "--model") -> None:
    """Raise RedcoError where PyTorch is not installed, or another version of it."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        what = f"a PyTorch class needs {EXTRA} (torch {VERSION})"
        raise RedcoError(where, what, f"pip install '{EXTRA}'") from error
    if not version.startswith(f"{VERSION}."):
        what = f"a PyTorch class needs torch {VERSION}, and {version} is installed"
        raise RedcoError(where, what, f"pip install '{EXTRA}'")
