"""Layers that follow each other: calls of all parts of one list, each on what the one before gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch import fx, nn

from redco_new.pytorch.attention import calls_in
from redco_new.pytorch.construct import is_size
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.merge import Node, walk


@dataclass(frozen=True)
class Count:
    """How many parts a list has: so many layers but for those `before`, `length` in each.

    layers: Python
    """

    layers: str
    before: int = 0
    length: int = 1

    def __str__(self) -> str:
        number = f"{self.layers} - {self.before}" if self.before else self.layers
        if self.length == 1:
            return number
        return f"({number}) // {self.length}" if self.before else f"{number} // {self.length}"

    def times(self, calls: int) -> tuple[str, int]:
        """Return Python of so many times as many, and what is to be added to that."""
        if calls % self.length:
            return f"{calls} * ({self})", 0
        calls //= self.length
        return self.layers if calls == 1 else f"{calls} * {self.layers}", -calls * self.before


def roll_layers(nodes: Sequence[Node], part: nn.Module) -> list[Node]:
    """Return a program in which one node stands for the calls of all parts of a ModuleList.

    It is of kind "layers": `carry` is what goes from one to the next, `place` which argument that is,
    and `others` are the rest, the same for all.
    """
    rolled = list(nodes)
    for name, child in part.named_modules():
        if name and isinstance(child, nn.ModuleList) and len(child) > 1:
            wanted = [f"{name}.{i}" for i in range(len(child))]
            calls = [n for n in rolled if n.kind == "module" and n.target.startswith(f"{name}.")]
            if [call.target for call in calls] == wanted and (place := _carry(calls)) is not None:
                rolled = _replace(rolled, calls, name, place)
    return rolled


def _carry(calls: Sequence[Node]) -> str | None:
    """Return which argument of each call is what the call before gives, if the others are all the same."""
    places = {key for key, x in calls[1].arguments.items() if x is calls[0]}
    if len(places) != 1:
        return None
    place = places.pop()
    for before, call in pairwise(calls):
        alike = call.arguments.keys() == before.arguments.keys() and all(
            x is before.arguments[key] for key, x in call.arguments.items() if key != place
        )
        if not alike or call.arguments[place] is not before or before.users != [call]:
            return None
    return place


def _replace(nodes: list[Node], calls: Sequence[Node], name: str, place: str) -> list[Node]:
    first, last = calls[0], calls[-1]
    others = {key: x for key, x in first.arguments.items() if key != place}
    arguments = {"carry": first.arguments[place], "place": place, "others": others}
    layers = Node(
        "layers", name, arguments, last.dims, last.dtype, last.statement, last.place, last.users
    )
    for node in walk(arguments):
        node.users = [user for user in node.users if user not in calls] + [layers]
    for user in last.users:
        user.arguments = swap(user.arguments, last, layers)
    return [
        layers if node is first else node for node in nodes if node is first or node not in calls
    ]


def swap(x, old: Node, new: Node):
    """Return an argument with another node in the place of one."""
    if x is old:
        return new
    if isinstance(x, dict):
        return {key: swap(value, old, new) for key, value in x.items()}
    return [swap(value, old, new) for value in x] if isinstance(x, list | tuple) else x


def can_stack(
    module: nn.Module,
    paths: Sequence[str],
    key: Callable[[str], object],
) -> bool:
    """Return whether parts can be one, with stacked parameters: of one program."""
    return len({key(path) for path in paths}) == 1 and may_stack(module, paths[:1])


def may_stack(module: nn.Module, paths: Sequence[str]) -> bool:
    """Return whether parts change no buffer."""
    norms = nn.modules.batchnorm._NormBase
    parts = (part for path in paths for part in module.get_submodule(path).modules())
    return not any(isinstance(part, norms) for part in parts)


def have_places(
    arguments: Mapping[str, Mapping[str, Any]], paths: Sequence[str], read: Sequence[str]
) -> bool:
    """Return whether parts are made of numbers of their own, as of their place in a list, which they read.

    arguments: path of a part -> what it was made with. read: names of those that it reads
    """
    rows = [arguments.get(own_path(path), {}) for path in paths]
    names = [name for name in read if is_size(rows[0].get(name))]
    return any(len({row.get(name) for row in rows}) > 1 for name in names)


def stays_in_loop(path: str, graphs: Mapping[str, fx.Graph]) -> str:
    """Return why a layer is never written out, as Python of arguments of `over_layers`."""
    below = [graph for of, graph in graphs.items() if f"{of}.".startswith(f"{path}.")]
    steps = (node for graph in below for node in graph.nodes)
    experts = any(str(node.target).startswith("redco.experts") for node in steps)
    capped = any(call.cap for graph in below for call in calls_in(graph))
    return ", experts=True" * experts + ", capped=True" * capped
