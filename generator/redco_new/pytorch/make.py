"""The one call of this package: from a class of PyTorch to a `PrintedClass`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redco_new.own.call import Call
from redco_new.own.find import Reference
from redco_new.pytorch.printed import PrintedClass


def is_torch(value: Any) -> bool:
    """Return whether a class that was imported is one of PyTorch: torch is not imported to tell."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return any((b.__module__, b.__name__) == ("torch.nn.modules.module", "Module") for b in bases)


def print_class(
    reference: Reference, where: str, arguments: Mapping[str, Any], call: Call
) -> PrintedClass:
    """Print a torch.nn.Module as an NNX class, and compare both: nothing comes back that the gate refuses.

    reference: the class, as `own.find.find_reference` imports it
    where: what gave `arguments` (of the constructor) and `call` (of `forward`), for messages

    Raises RedcoError, with the class's line, for what cannot be printed or differs from PyTorch.
    """
    raise NotImplementedError
