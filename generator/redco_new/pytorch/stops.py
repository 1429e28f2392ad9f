"""Where gradients stop: `detach` of what follows from parameters, and what a class computes of them under `no_grad`."""

from __future__ import annotations

import operator

import torch
from torch import fx
from torch.export import ExportedProgram

DETACH = torch.ops.aten.detach.default
GRAD_ENABLED = torch.ops.higher_order.wrap_with_set_grad_enabled


def say_stops(program: ExportedProgram) -> None:
    """Leave a `detach` where it stops a gradient, and nowhere else; what is made under `no_grad` has one. The program is changed in place."""
    graph, parameters = program.graph, program.graph_signature.inputs_to_parameters
    follow: set[fx.Node] = set()  # nodes that a gradient goes through
    off = [node for node in graph.nodes if node.target is GRAD_ENABLED and node.args[0] is False]
    for node in [
        user for region in off for user in region.users if user.target is operator.getitem
    ]:
        with graph.inserting_after(node):
            stop = graph.call_function(DETACH, (node,))
        stop.meta = dict(node.meta)
        node.replace_all_uses_with(stop, lambda user, stop=stop: user is not stop)
    for node in list(graph.nodes):
        if node.op == "placeholder":
            follow |= {node} if node.name in parameters else set()
        elif node.target is DETACH:
            if node.args[0] not in follow:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        elif any(x in follow for x in node.all_input_nodes) and _has_gradient(node):
            follow.add(node)
    program.graph_module.recompile()


def _has_gradient(node: fx.Node) -> bool:
    """Return whether a value may have a gradient: one of several values, or an array of numbers."""
    value = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex()
