"""What programs of parts have in common that are of one class in model.py."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from torch import fx, nn
from torch.nn.utils.parametrize import is_parametrized

from redco_new.pytorch.graph import is_leaf
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.merge import structure


class Structures:
    """The structure of each part's program, and of those that it calls.

    numbers: whether programs that differ in numbers alone are of two structures
    """

    def __init__(
        self, module: nn.Module, graphs: Mapping[str, fx.Graph], numbers: bool = False
    ) -> None:
        self._module, self._graphs, self._numbers = module, graphs, numbers
        # Path of a part -> what it has in common with others of its program that it is printed with.
        self.marks: Mapping[str, Hashable] = {}
        self._structures: dict[str, Hashable] = {}

    def of(self, path: str) -> Hashable:
        """Return the structure of the part at a path."""
        if path not in self._structures:
            if is_leaf(self._module, path):
                part = self._module.get_submodule(own_path(path))
                self._structures[path] = (type(part), *([part.extra_repr()] * self._numbers))
            else:
                below = f"{path}.".removeprefix(".")
                graph = self._graphs.get(path) or self._graphs[own_path(path)]
                own = structure(graph, lambda t: self.of(below + t), self._numbers)
                part = self._module.get_submodule(own_path(path))
                self._structures[path] = (class_of(part), own, self.marks.get(path))
        return self._structures[path]


def class_of(part: nn.Module) -> Hashable:
    """Return the class of a part; of one whose weights are computed, which PyTorch gives a class of its own each time, the one it was."""
    cls: Any = type(part)
    return (cls.__name__, cls.__bases__) if is_parametrized(part) else cls
