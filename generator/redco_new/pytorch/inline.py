"""Parts that are written out where they are called: activations, and what gives more than its last entry's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import fx, nn

from redco_new.pytorch.lists import is_sequential
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.ties import is_tied


def inline_functions(module: nn.Module, graphs: dict[str, fx.Graph]) -> None:
    """Put the graphs of parts without parameters, as activations, in the place of their calls.

    Not within a Sequential, which has one entry for each; one that gives what it changed in place beside its own is put there itself.
    """
    for path in sorted(graphs, key=lambda path: -path.count(".")):
        if is_sequential(module.get_submodule(own_path(path))):
            continue
        calls = [*graphs[path].find_nodes(op="call_module")]
        while calls:
            part = f"{path}.{calls[0].target}".removeprefix(".")
            node = calls.pop(0)
            if is_function(module, part) or _gives_several(module, part, graphs):
                calls = [*_inline(node, graphs[part]), *calls]


def _gives_several(module: nn.Module, path: str, graphs: Mapping[str, fx.Graph]) -> bool:
    """Return whether a part is a Sequential that gives, beside its last entry's, what its first one changed in place."""
    several = path in graphs and isinstance(graphs[path].output_node().args[0], tuple | list)
    return several and is_sequential(module.get_submodule(own_path(path)))


def _inline(node: fx.Node, graph: fx.Graph) -> list[fx.Node]:
    """Put the graph of a part in the place of its call; return the calls of its own parts."""
    inputs, owner = graph.find_nodes(op="placeholder"), node.graph
    copies = dict(zip(inputs, node.args, strict=True))
    with owner.inserting_before(node):
        result: Any = owner.graph_copy(graph, copies)
    steps = [x for x in graph.nodes if x.op == "call_function"]
    for inner in graph.nodes:
        if inner.op in ("get_attr", "call_module"):
            copies[inner].target = f"{node.target}.{inner.target}"
    if len(steps) == 1:  # it is of the statement that calls it
        copies[steps[0]].meta["stack_trace"] = node.meta.get("stack_trace")
    for user in [*node.users] if isinstance(result, tuple | list) else ():
        item: Any = user.args[1]
        user.replace_all_uses_with(result[item])
        owner.erase_node(user)
    if not isinstance(result, tuple | list):
        node.replace_all_uses_with(result)
    owner.erase_node(node)
    return [copies[x] for x in graph.nodes if x.op == "call_module"]


def is_function(module: nn.Module, path: str) -> bool:
    """Return whether a part holds nothing, and is a layer of torch or has no parts: it is written out."""
    part = module.get_submodule(own_path(path))
    if type(part) in LEAVES and is_tied(module, own_path(path)):
        return True
    if type(part) in LEAVES or any(True for _ in part.children()):
        return isinstance(part, nn.Sequential) and not len(part)
    return not any(True for _ in part.parameters()) and not any(True for _ in part.buffers())
