"""Loops as Python: over the layers of a list, and over the steps of a scan."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from redco_new.pytorch import scan_nodes
from redco_new.pytorch.expressions import sequence, show
from redco_new.pytorch.merge import Node, walk
from redco_new.pytorch.variables import assign, hint_of, name_node

BEGIN, END = str(scan_nodes.BEGIN), str(scan_nodes.END)  # as targets of a program


def print_loop(
    layers: ast.expr,
    how: str | None,
    one: str,
    name: str,
    carry: ast.expr,
    call: ast.expr,
    attend: bool,
) -> list[ast.stmt]:
    """Return the statements that call each of `layers` on what the one before gives.

    how: Python of the arguments of `over_layers` where they are stacked; None where they are apart
    one, name, call: what a layer is called, what it is given and gives, and its call
    carry: what the first is given
    attend: whether what layers attend by is handed on to them
    """
    if how is None:
        first = [] if show(carry) == name else [assign(name_node(name), carry)]
        body: list[ast.stmt] = [assign(name_node(name), call)]
        return [*first, ast.For(name_node(one), layers, body, [], lineno=0)]
    over, also = ("attend.over_layers", ", attend") if attend else ("over_layers", "")
    run = f"@{over}({how})\ndef run({one}, {name}{also}):\n    return {show(call)}"
    result = ast.Call(name_node("run"), [layers, carry], [])
    return [*ast.parse(run).body, assign(name_node(name), result)]


def print_scan(
    name: str,
    before: tuple[Sequence[str], Sequence[str]],
    body: Sequence[ast.stmt],
    step: tuple[Sequence[ast.expr], Sequence[ast.expr]],
    inputs: tuple[Sequence[ast.expr], Sequence[ast.expr], ast.expr],
    after: tuple[Sequence[str], Sequence[str]],
) -> list[ast.stmt]:
    """Return the function of one step, and the scan of it.

    name: of that function
    before: names of the states before a step, and of its rows; after: of the states after the last one, and of results
    step: what a step gives: the states after it, and its results
    inputs: the states before the first one, the arrays whose rows the steps have, and how many steps there are
    """
    pairs = [("states", before[0]), ("rows", before[1])]
    parameters = [_one(plural, names) for plural, names in pairs]
    unpacked = [
        assign(sequence([*map(name_node, names)]), name_node(parameter))
        for parameter, (_, names) in zip(parameters, pairs, strict=True)
        if len(names) > 1
    ]
    function = ast.parse(f"def {name}({', '.join(parameters)}):\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    result = ast.Return(sequence([_of_several(items) for items in step]))
    function.body = [*unpacked, *body, result]
    states, rows, count = inputs
    arguments = [name_node(name), _of_several(states)] + [_of_several(rows)] * bool(rows)
    lengths = [] if rows else [ast.keyword("length", count)]
    scan = ast.Call(ast.parse("jax.lax.scan", mode="eval").body, arguments, lengths)
    targets = [
        _of_several([*map(name_node, names)]) if names else name_node("_") for names in after
    ]
    return [function, assign(sequence(targets), scan)]


def _one(plural: str, names: Sequence[str]) -> str:
    """Return the parameter of a step that some values are: the name of one, or of several."""
    return (names[0] if len(names) == 1 else plural) if names else "_"


def _of_several(items: Sequence[ast.expr]) -> ast.expr:
    if not items:
        return ast.Constant(None)
    return items[0] if len(items) == 1 else sequence([*items])


def scan_hints(begin: Node) -> list[str]:
    """Return what the states and rows of a step are called: as in its author's statements, or as the arrays that they are rows of."""
    items = {int(x.arguments["1"].values[0]): x for x in begin.users if x.kind == "item"}
    states, arrays = begin.arguments["0"], begin.arguments["1"]
    hints = []
    for i, array in enumerate([*states, *arrays]):
        item = items.get(i)
        inner = item is None or any(user.statement == item.statement for user in item.users)
        if i >= len(states) and inner:
            while array.kind == "operation" and array.target in ("movedim.int", "slice.Tensor"):
                array = array.arguments["self"]
            hints.append(hint_of(array))
        else:
            hints.append(hint_of(item) if item else "_")
    return hints


def scans_of(nodes: Sequence[Node]) -> dict[Node, Node]:
    """Return the begin of the scan that each node of a program is a step of."""
    inside: dict[Node, Node] = {}
    current: Node | None = None
    for node in nodes:
        if node.target == BEGIN:
            current = node
        elif current is not None:
            inside[node] = current
            if node.target == END:
                current = None
    return inside


def read_in_scans(nodes: Sequence[Node], last: dict[Node, int]) -> set[Node]:
    """Return the values that steps of scans read and do not compute; each is read until the scan ends: `last` says so."""
    inside = scans_of(nodes)
    ends = {inside[node]: i for i, node in enumerate(nodes) if node.target == END}
    others: set[Node] = set()
    for node, begin in inside.items():
        for value in walk(node.arguments):
            if inside.get(value) is not begin and value is not begin:
                others.add(value)
                last[value] = max(last.get(value, 0), ends[begin])
    return others
