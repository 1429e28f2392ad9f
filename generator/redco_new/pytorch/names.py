"""What values are called where their author's statement does not say: as where they come from."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch import fx

from redco_new.pytorch.author import Statement, statement_of
from redco_new.pytorch.unread import operation

Graphs = Mapping[str, fx.Graph]


def output_names(graphs: Graphs, path: str) -> list[str]:
    """Return what a part calls the values that it gives; "" for one without a name."""
    if path not in graphs:
        return []
    output = next(node for node in graphs[path].nodes if node.op == "output")
    result: Any = output.args[0]
    values = result if isinstance(result, list | tuple) else [result]
    return [name_of(graphs, path, x) if isinstance(x, fx.Node) else "" for x in values]


def input_names(graphs: Graphs, path: str) -> list[str]:
    """Return what the caller of a part calls the values that it is given; "" for one without a name."""
    inputs = [node for node in graphs[path].nodes if node.op == "placeholder"]
    parts = path.split(".")
    for i in range(len(parts) - 1, -1, -1):
        caller, target = ".".join(parts[:i]), ".".join(parts[i:])
        for node in graphs[caller].nodes if caller in graphs else ():
            if node.op == "call_module" and node.target == target and len(node.args) == len(inputs):
                return [
                    name_of(graphs, caller, x) if isinstance(x, fx.Node) else "" for x in node.args
                ]
    return [node.name for node in inputs]


def name_of(graphs: Graphs, path: str, node: fx.Node) -> str:
    """Return what a value is called; "" where nothing says so."""
    statement = statement_of(node.meta.get("stack_trace"))
    arguments: Any = node.args
    names = statement.names
    if node.op == "placeholder":
        places = [x for x in graphs[path].nodes if x.op == "placeholder"]
        return input_names(graphs, path)[places.index(node)] if path else str(node.target)
    if node.op == "get_attr":
        return str(node.target).rpartition(".")[2]
    if node.target is operator.getitem and arguments[0].op == "call_module":
        below = output_names(graphs, f"{path}.{arguments[0].target}".removeprefix("."))
        index = arguments[1]
        return below[index] if index < len(below) else ""
    if len(names) == 1:
        return names[0]
    if node.target is operator.getitem and arguments[1] < len(names):
        return names[arguments[1]].strip("_")
    results = _results(node.graph, statement) if names else []
    if node in results and len(results) == len(names):
        return names[results.index(node)]  # q, k, v = map(lambda x: x.view(...), (q, k, v))
    if node.op == "call_function" and operation(node) == "_to_copy":  # as it is returned
        return name_of(graphs, path, arguments[0])
    if node.op == "call_module":
        below = output_names(graphs, f"{path}.{node.target}".removeprefix("."))
        return below[0] if len(below) == 1 else ""
    return ""


def _results(graph: fx.Graph, statement: Statement) -> list[fx.Node]:
    """Return the values of a statement that others read, in the order in which they are computed."""
    own = [x for x in graph.nodes if statement_of(x.meta.get("stack_trace")) == statement]
    return [x for x in own if not {*x.users} <= {*own}]
