"""Arrays that a part makes of its caller's sizes alone, as positions: the caller makes them, and hands them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import fx

# What makes arrays of sizes, and what makes other shapes of them.
MAKERS = {"arange", "full", "zeros", "ones", "expand", "unsqueeze", "view", "reshape"}


def hand_on_counted(graphs: Mapping[str, fx.Graph], operation: Callable[[fx.Node], str]) -> None:
    """Make such arrays arguments of the calls of a part that is given none, and so knows no sizes."""
    for path in sorted(filter(None, graphs), key=lambda path: -path.count(".")):
        graph = graphs[path]
        if any(node.op == "placeholder" for node in graph.nodes):
            continue
        arrays: list[fx.Node] = []
        for node in graph.nodes:
            if node.op == "call_function" and operation(node) in MAKERS:
                if all(x in arrays for x in node.all_input_nodes):
                    arrays.append(node)
        ends = [node for node in arrays if any(user not in arrays for user in node.users)]
        if not ends:
            continue
        calls = [
            (caller, node)
            for above, caller in graphs.items()
            for node in caller.nodes
            if node.op == "call_module" and f"{above}.{node.target}".removeprefix(".") == path
        ]
        for caller, call in calls:
            copies: dict[fx.Node, fx.Node] = {}
            with caller.inserting_before(call):
                for node in arrays:
                    copies[node] = caller.node_copy(node, lambda x: copies[x])  # noqa: B023
            call.args = (*call.args, *(copies[node] for node in ends))
        first = next(iter(graph.nodes))
        for node in ends:
            with graph.inserting_before(first):
                entry = graph.placeholder(node.name)
            entry.meta = dict(node.meta)
            node.replace_all_uses_with(entry)
        for node in reversed(arrays):
            graph.erase_node(node)
