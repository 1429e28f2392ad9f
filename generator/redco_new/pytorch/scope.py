"""What the printers of an __init__ and of a __call__ ask of the class that they are of, and of all classes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import fx, nn

from redco_new.pytorch.layers import Count
from redco_new.pytorch.sizes import Atom, Number


class Parts(Protocol):
    """What is asked of all classes of the program."""

    module: nn.Module
    graphs: Mapping[str, fx.Graph]

    lengths: Mapping[str, Count]

    def note(self, text: str) -> None:
        """Add a line for the user, once."""

    def of(self, path: str) -> Any:
        """Return the class of a part, printed."""

    def is_expression(self, path: str) -> bool:
        """Return whether a part is written out where it is called."""

    def read_above(self, path: str) -> Collection[str]:
        """Return what of a part, by paths below it, others than it read."""


class Own(Protocol):
    """What is asked of the class that is printed.

    rows: (probe, path) of each instance in each probe
    names: the arguments of its __init__
    dtype: what it computes in, as its __init__ has it
    """

    path: str
    part: nn.Module
    rows: list[tuple[Any, str]]
    init_atoms: list[Atom]
    dtype: str

    @property
    def names(self) -> list[str]: ...

    def init_text(self, values: tuple[int | float, ...]) -> str | None:
        """Return Python of a number in __init__."""

    def drop(self, rate: Number) -> ast.expr:
        """Return Python of a Dropout of F.dropout."""


@dataclass(frozen=True)
class Reference:
    """How a body names what its module holds.

    parameter, module: target in the graph -> Python
    order: target of a module -> in which order it takes its inputs
    sizes: target of a module -> dims of the inputs of the whole that it is told besides
    drop: rate -> Python of a Dropout, which __init__ makes
    outputs: target of a module -> what it calls the values that it gives
    leaf: target of a module -> the layer of torch.nn that it is, or None
    dtype: Python of what is computed in
    noise: "normal" or "uniform" -> Python of what draws such numbers, which __init__ makes
    layers: target of a list -> Python of what is saved of its layers, which are stacked; None where they are apart
    """

    parameter: Callable[[str], ast.expr]
    module: Callable[[str], ast.expr]
    order: Callable[[str], Sequence[int]]
    drop: Callable[[Number], ast.expr]
    layers: Callable[[str], str | None] = lambda target: None
    outputs: Callable[[str], list[str]] = lambda target: []
    leaf: Callable[[str], Any] = lambda target: None
    dtype: str = "dtype"
    noise: Callable[[str], ast.expr] = lambda kind: _no_noise()
    sizes: Callable[[str], Sequence[Atom]] = lambda target: ()


def _no_noise() -> ast.expr:
    raise NotImplementedError("numbers that a constructor draws")
