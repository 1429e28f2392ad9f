"""One program out of several that differ in numbers alone: of each probe, and of each instance of a class."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from redco_new.pytorch.author import Statement, statement_of
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.refusal import UnlikeProgram, place_of, refuse
from redco_new.pytorch.sizes import Number

WRITES = "copy_.default"  # the target of a step that writes a buffer, and gives what it has then


@dataclass(eq=False)
class Node:
    """A step of a program.

    kind: "input", "parameter", "module", "operation", "item", "output"
    target: of a parameter or a module the path; of an operation its name in PyTorch
    arguments: by name; nested lists of Nodes, Numbers and other values
    dims: of what it gives, where that is one tensor
    dtype: of that
    statement: of the class's source that it comes from
    place: FILE:LINE of that
    users: the nodes that read it, one for each time
    """

    kind: str
    target: Any
    arguments: dict[str, Any]
    dims: tuple[Number, ...] | None
    dtype: torch.dtype | None
    statement: Statement
    place: str
    users: list[Node] = field(default_factory=list)


def structure(graph: fx.Graph, part: Any, numbers: bool = False) -> Hashable:
    """Return what programs have in common that differ in numbers alone.

    part(target): the structure of a module that is called. numbers: whether these too are in common
    """
    names = {node: i for i, node in enumerate(graph.nodes)}

    def shape(x: Any) -> Hashable:
        if isinstance(x, fx.Node):
            return ("node", names[x])
        if isinstance(x, list | tuple):
            return tuple(map(shape, x))
        if isinstance(x, slice):
            return ("slice", shape(x.start), shape(x.stop), shape(x.step))
        if isinstance(x, int | float) and not isinstance(x, bool):
            return x if numbers else "number"
        return str(x)

    rows = []
    for node in graph.nodes:
        value = node.meta.get("val")
        rank = value.ndim if isinstance(value, torch.Tensor) else None
        target = part(node.target) if node.op == "call_module" else str(node.target)
        if node.op == "placeholder":
            target = ""
        kwargs = tuple((name, shape(x)) for name, x in sorted(node.kwargs.items()))
        row = (node.op, target, rank, getattr(value, "dtype", None), shape(node.args), kwargs)
        rows.append((*row, node.args[1]) if node.target is operator.getitem else row)
    return tuple(rows)


def merge(graphs: Sequence[fx.Graph]) -> list[Node]:
    """Return the nodes of graphs of one structure, in which each number is a Number of all of them."""
    merged: dict[fx.Node, Node] = {}
    nodes = []
    lengths = {len(graph.nodes) for graph in graphs}
    for row in zip(*(graph.nodes for graph in graphs), strict=False):
        first = row[0]
        other = next((x for x in row if _outline(x) != _outline(first)), None)
        if other is not None or len(lengths) > 1 and first.op == "output":
            where = place_of((other or first).meta.get("stack_trace"))
            what = f"its program is another one for other sizes ({first.target}, {other and other.target})"
            raise UnlikeProgram(where or "--model", what, "give other sizes")
        arguments = [_bind(node) for node in row]
        node = Node(
            _kind(first),
            _target(first),
            {name: _merge([a[name] for a in arguments], merged) for name in arguments[0]},
            _dims(row),
            getattr(first.meta.get("val"), "dtype", None),
            statement_of(first.meta.get("stack_trace")),
            place_of(first.meta.get("stack_trace")),
        )
        for value in walk(node.arguments):
            value.users.append(node)
        merged[first] = node
        nodes.append(node)
    return nodes


def _outline(node: fx.Node) -> Hashable:
    """Return what a step is in all programs: what it calls, and with how many arguments."""
    target = "" if node.op == "placeholder" else own_path(str(node.target))
    return node.op, target, len(node.args), tuple(sorted(node.kwargs))


def walk(x: Any) -> list[Node]:
    """Return the nodes in an argument, in their order."""
    if isinstance(x, Node):
        return [x]
    if isinstance(x, dict):
        return [node for value in x.values() for node in walk(value)]
    if isinstance(x, list | tuple):
        return [node for value in x for node in walk(value)]
    return []


KINDS = {
    "placeholder": "input",
    "get_attr": "parameter",
    "call_module": "module",
    "output": "output",
}


def _kind(node: fx.Node) -> str:
    if node.op == "call_function":
        return "item" if node.target is operator.getitem else "operation"
    return KINDS[node.op]


def _target(node: fx.Node) -> Any:
    """Return what a node calls, without the mark of a second call."""
    if node.op == "call_function":
        return str(node.target).removeprefix("aten.").removeprefix("redco.")
    return own_path(str(node.target))


def _bind(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of a node by name, with those of its defaults that say something."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return {str(i): x for i, x in enumerate(node.args)} | dict(node.kwargs)
    bound: dict[str, Any] = {}
    for i, argument in enumerate(node.target._schema.arguments):
        if i < len(node.args) and not argument.kwarg_only:
            bound[argument.name] = node.args[i]
        elif argument.name in node.kwargs:
            bound[argument.name] = node.kwargs[argument.name]
        else:
            bound[argument.name] = Default(argument.default_value)
    return bound


@dataclass(frozen=True)
class Default:
    """An argument that a call leaves at its default."""

    value: Any


def _merge(values: list[Any], merged: dict[fx.Node, Node]) -> Any:
    """Return one argument out of those of all programs."""
    first = values[0]
    if isinstance(first, fx.Node):
        return merged[first]
    if isinstance(first, list | tuple):
        if len({len(value) for value in values}) > 1:
            what = "it has a list that is longer for other sizes"
            raise UnlikeProgram("--model", what, "give other sizes")
        return [_merge(list(column), merged) for column in zip(*values, strict=True)]
    if isinstance(first, Default):
        return Default(_merge([v.value for v in values], merged))
    if isinstance(first, int | float) and not isinstance(first, bool):
        return Number(tuple(values))
    return first


def _dims(row: Sequence[fx.Node]) -> tuple[Number, ...] | None:
    arrays: list[Any] = [node.meta.get("val") for node in row]
    if not all(isinstance(x, torch.Tensor) for x in arrays):
        return None
    shapes = [x.shape for x in arrays]
    if any(not isinstance(size, int) for shape in shapes for size in shape):
        raise refuse(place_of(row[0].meta.get("stack_trace")), "a shape follows from values")
    return tuple(Number(tuple(sizes)) for sizes in zip(*shapes, strict=True))
