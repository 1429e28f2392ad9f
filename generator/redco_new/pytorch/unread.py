"""Steps of a program: what they are called, and those that nobody reads."""

from __future__ import annotations

import torch
from torch import fx

CASTS = {"_to_copy", "type_as"}  # operations that give another dtype
WRITE = torch.ops.aten.copy_.default  # into a buffer, which the next call reads


def operation(node: fx.Node) -> str:
    """Return the name of an operation without its overload: "add" of aten.add.Tensor."""
    return str(node.target).removeprefix("aten.").split(".")[0]


def drop_unread(graph: fx.Graph) -> None:
    """Drop the steps of a functional program that nobody reads: they do nothing, but those that write buffers."""
    for node in reversed(graph.nodes):
        does_something = node.op in ("placeholder", "output") or node.target == WRITE
        if not node.users and not does_something:
            graph.erase_node(node)
