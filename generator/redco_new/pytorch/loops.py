"""The loop over layers of a list, as Python."""

from __future__ import annotations

import ast

from redco_new.pytorch.expressions import show
from redco_new.pytorch.variables import assign, name_node


def print_loop(
    layers: ast.expr,
    remat: str | None,
    one: str,
    name: str,
    carry: ast.expr,
    call: ast.expr,
    attend: bool,
) -> list[ast.stmt]:
    """Return the statements that call each of `layers` on what the one before gives.

    remat: Python of what is saved of layers that are stacked; None where they are apart
    one, name, call: what a layer is called, what it is given and gives, and its call
    carry: what the first is given
    attend: whether what layers attend by is handed on to them
    """
    if remat is None:
        first = [] if show(carry) == name else [assign(name_node(name), carry)]
        body: list[ast.stmt] = [assign(name_node(name), call)]
        return [*first, ast.For(name_node(one), layers, body, [], lineno=0)]
    over, also = ("attend.over_layers", ", attend") if attend else ("over_layers", "")
    run = f"@{over}({remat})\ndef run({one}, {name}{also}):\n    return {show(call)}"
    result = ast.Call(name_node("run"), [layers, carry], [])
    return [*ast.parse(run).body, assign(name_node(name), result)]
