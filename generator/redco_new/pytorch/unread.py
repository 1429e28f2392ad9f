"""Steps of a program that nobody reads."""

from __future__ import annotations

from torch import fx


def drop_unread(graph: fx.Graph) -> None:
    """Drop the steps of a functional program that nobody reads: they do nothing."""
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
