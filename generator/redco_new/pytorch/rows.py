"""An entry of a list of lists, as `attention, feed_forward` of `self.layers`, as a part that is called."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from typing import Any

from torch import nn


class Row(nn.ModuleList):
    """What is done with the parts of one entry of a list: no list itself, as it is called.

    names: of its parts, in model.py
    """

    names: tuple[str, ...] = ()

    def forward(self, x: Any, *others: Any) -> Any:
        """Raise: its program is a graph."""
        raise NotImplementedError


def attribute(part: nn.Module, name: str) -> str:
    """Return what a part of a part is called in model.py."""
    return part.names[int(name)] if isinstance(part, Row) and name.isdigit() else name


def part_names(module: nn.Module, path: str) -> tuple[str, ...]:
    """Return what the parts of each entry of the list at a path are called: as in the author's loop, or by their classes."""
    above, _, name = path.rpartition(".")
    while above and isinstance(module.get_submodule(above), nn.ModuleList | nn.ModuleDict):
        above = above.rpartition(".")[0]
    entry = module.get_submodule(f"{path}.0")
    if isinstance(entry, nn.ModuleDict):
        return tuple(entry._modules)
    count = len([*entry.children()])
    classes = [
        re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(x).__name__).lower() for x in entry.children()
    ]
    numbered = tuple(f"{x}_{i}" if classes.count(x) > 1 else x for i, x in enumerate(classes))
    owner: Any = type(module.get_submodule(above))
    return _in_loop(owner, name, count) or numbered


@cache
def _in_loop(owner: Any, name: str, count: int) -> tuple[str, ...]:
    """Return the variables of a loop over a list in the source of a class; () where it has none."""

    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError, SyntaxError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and f".{name}" in ast.unparse(node.iter):
            names = tuple(x.id for x in ast.walk(node.target) if isinstance(x, ast.Name))[-count:]
            if len(names) == count == len({*names}) and "_" not in names:
                return names
    return ()
