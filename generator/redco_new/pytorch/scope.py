"""What the printer of an __init__ asks of the class that it is of, and of all classes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Protocol

from torch import fx, nn

from redco_new.pytorch.sizes import Atom, Number


class Parts(Protocol):
    """What is asked of all classes of the program."""

    module: nn.Module
    graphs: Mapping[str, fx.Graph]

    lengths: Mapping[str, str]
    notes: list[str]

    def of(self, path: str) -> Any:
        """Return the class of a part, printed."""


class Own(Protocol):
    """What is asked of the class that is printed.

    rows: (probe, path) of each instance in each probe
    names: the arguments of its __init__
    """

    path: str
    part: nn.Module
    rows: list[tuple[Any, str]]
    init_atoms: list[Atom]

    @property
    def names(self) -> list[str]: ...

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout of F.dropout."""
