"""Which of its results a layer of torch.nn gives: torch.export leaves out those that nobody reads."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

from torch import fx, nn
from torch.utils import _pytree as pytree

from redco_new.pytorch.leaves import LEAVES


def number_results(module: nn.Module, graphs: Mapping[str, fx.Graph]) -> None:
    """Make calls of layers that give several arrays read each by its place in what the layer gives."""
    for path, graph in graphs.items():
        for call in [node for node in graph.nodes if node.op == "call_module"]:
            below = f"{path}.{call.target}".removeprefix(".")
            leaf = LEAVES.get(type(module.get_submodule(below.partition("@")[0])))
            if leaf and leaf.gives > 1:
                _number(graph, call, graphs[below])


def _number(graph: fx.Graph, call: fx.Node, below: fx.Graph) -> None:
    call.args = _in_order(call, below)
    output: Any = next(node for node in below.nodes if node.op == "output").args[0]
    several = isinstance(output, list | tuple)
    places = [x.args[1] for x in (output if several else [output])]
    if several:
        for user in list(call.users):
            user.args = (call, places[cast(int, user.args[1])])
        return
    with graph.inserting_after(call):
        one = graph.call_function(operator.getitem, (call, places[0]))
    one.meta = dict(call.meta)
    call.meta["val"] = (call.meta["val"],)
    call.replace_all_uses_with(one)
    one.args = (call, places[0])


def _in_order(call: fx.Node, below: fx.Graph) -> tuple[Any, ...]:
    """Return the arguments of a call as the layer takes them: what it reads, then the states that it begins with."""
    inputs = [node for node in below.nodes if node.op == "placeholder"]
    step = next(node for node in below.nodes if any(x in inputs for x in node.args))
    read = [x for x in pytree.tree_leaves(step.args[:2]) if x in inputs]
    return tuple(call.args[inputs.index(x)] for x in read)
