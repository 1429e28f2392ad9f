"""Which of its results a part gives: torch.export leaves out those that nobody reads."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

from torch import fx, nn
from torch.utils import _pytree as pytree

from redco_new.pytorch.paths import own_path
from redco_new.pytorch.leaves import LEAVES


def number_results(module: nn.Module, graphs: Mapping[str, fx.Graph]) -> None:
    """Make calls of layers that give several arrays read each by its place in what the layer gives."""
    for path, graph in graphs.items():
        for call in [node for node in graph.nodes if node.op == "call_module"]:
            below = f"{path}.{call.target}".removeprefix(".")
            leaf = LEAVES.get(type(module.get_submodule(below.partition("@")[0])))
            if leaf and leaf.gives > 1:
                _number(graph, call, graphs[below])


def give_alike(module: nn.Module, graphs: dict[str, fx.Graph]) -> None:
    """Make each call of a part that is called again give what one that has more results does."""
    calls: dict[str, list[str]] = {}
    for path in graphs:
        calls.setdefault(own_path(path), []).append(path)
    for own, paths in calls.items():
        if len(paths) < 2 or type(module.get_submodule(own)) in LEAVES:
            continue
        numbers: dict[Hashable, int] = {}
        keys = {path: _keys(graphs[path], numbers) for path in paths}
        for path in paths:
            if keys[path] and (more := [x for x in paths if {*keys[path]} < {*keys[x]}]):
                most = max(more, key=lambda x: len(keys[x]))
                places = [keys[most].index(key) for key in keys[path]]
                _give_more(graphs, path, graphs[most], places)


def _keys(graph: fx.Graph, numbers: dict[Hashable, int]) -> list[Hashable]:
    """Return what stands for each result: how it is made of the inputs. numbers: what stands for each step of all graphs"""
    of: dict[fx.Node, Any] = {}
    inputs = len(graph.find_nodes(op="placeholder"))
    for node in graph.nodes:
        if node.op == "output":
            return [of.get(x, x) for x in pytree.tree_leaves(node.args)]
        read = fx.node.map_arg((node.args, node.kwargs), of.__getitem__)
        how = (
            ("input", len(of), inputs)
            if node.op == "placeholder"
            else (node.op, node.target, str(read))
        )
        of[node] = numbers.setdefault(how, len(numbers))
    return []


def _give_more(
    graphs: dict[str, fx.Graph], path: str, whole: fx.Graph, places: Sequence[int]
) -> None:
    """Give a call the program of another one of its part. places: of its results, among those of that"""
    own = graphs[path].output_node().args[0]
    graphs[path] = fx.Graph()
    graphs[path].output(graphs[path].graph_copy(whole, {}))
    results: Any = whole.output_node().args[0]
    for caller, graph in graphs.items():
        for call in graph.find_nodes(op="call_module"):
            if f"{caller}.{call.target}".removeprefix(".") != path:
                continue
            if isinstance(own, list | tuple):
                for user in call.users:
                    user.args = (call, places[cast(int, user.args[1])])
            else:
                _read_one(graph, call, places[0])
            call.meta["val"] = tuple(x.meta.get("val") for x in results)


def _number(graph: fx.Graph, call: fx.Node, below: fx.Graph) -> None:
    call.args = _in_order(call, below)
    output: Any = next(node for node in below.nodes if node.op == "output").args[0]
    several = isinstance(output, list | tuple)
    places = [x.args[1] for x in (output if several else [output])]
    if several:
        for user in list(call.users):
            user.args = (call, places[cast(int, user.args[1])])
        return
    _read_one(graph, call, places[0])
    call.meta["val"] = (call.meta["val"],)


def _read_one(graph: fx.Graph, call: fx.Node, place: int) -> None:
    """Make a call give several results, of which its users read one."""
    with graph.inserting_after(call):
        one = graph.call_function(operator.getitem, (call, place))
    one.meta = dict(call.meta)
    call.replace_all_uses_with(one)
    one.args = (call, place)


def _in_order(call: fx.Node, below: fx.Graph) -> tuple[Any, ...]:
    """Return the arguments of a call as the layer takes them: what it reads, then the states that it begins with."""
    inputs = [node for node in below.nodes if node.op == "placeholder"]
    step = next(node for node in below.nodes if any(x in inputs for x in node.args))
    read = [x for x in pytree.tree_leaves(step.args[:2]) if x in inputs]
    return tuple(call.args[inputs.index(x)] for x in read)
