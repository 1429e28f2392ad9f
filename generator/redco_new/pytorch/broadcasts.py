"""Arrays that are made larger for readers who do that by themselves, as a quotient by norms does."""

from __future__ import annotations

from typing import Any

from torch import broadcast_shapes, fx

from redco_new.pytorch.unread import operation

EXPAND = {"expand", "expand_as"}
READERS = {"add", "sub", "mul", "div", "maximum", "minimum"}


def is_broadcast_anyway(node: fx.Node) -> bool:
    """Return whether a step makes an array larger, and each of its readers would."""
    source: Any = node.args[0]
    if operation(node) not in EXPAND or source.meta["val"].ndim != node.meta["val"].ndim:
        return False
    for user in node.users:
        if operation(user) not in READERS:
            return False
        shapes = [(source if x is node else x).meta["val"].shape for x in user.all_input_nodes]
        if user.meta["val"].shape != broadcast_shapes(*shapes):
            return False
    return True
