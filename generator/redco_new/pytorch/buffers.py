"""Buffers: how the constructor of a class computes them, as a program of its own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.nn import init

from redco_new.pytorch.constants import say_number
from redco_new.pytorch.construct import Instance
from redco_new.pytorch.exported import make_functional, without_places
from redco_new.pytorch.graph import NOTHING, clean, operation
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.numbers_read import ReadNumbers

# Steps of what is drawn, or has no values yet; and how many steps of a parameter are printed.
DRAWS, FEW = re.compile("(new_)?(rand|empty|normal|uniform|bernoulli|exponential)"), 24
# What functions of torch.nn.init end in: parameters are no matter here, and some of these look at values.
FILLS = (
    "kaiming_uniform_",
    "kaiming_normal_",
    "_no_grad_uniform_",
    "_no_grad_normal_",
    "_no_grad_trunc_normal_",
    "_no_grad_fill_",
    "_no_grad_zero_",
)


def has_buffers(module: nn.Module) -> bool:
    """Return whether a class has buffers that no layer of Flax has."""
    parts = (part for part in module.modules() if type(part) not in LEAVES)
    return any(True for part in parts for _ in tensors_of(part))


def tensors_of(part: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers of a part itself, and the tensors that are no more than attributes of it, by name."""
    own = {name: x for name, x in part.named_buffers(recurse=False)}
    return own | {name: x for name, x in vars(part).items() if isinstance(x, torch.Tensor)}


def undrawn(instance: Instance) -> set[str]:
    """Return the names of parameters of no layer of Flax, of which nothing says how they are drawn: they may be computed."""
    parts = instance.module.named_modules()
    own = ((path, part) for path, part in parts if type(part) not in LEAVES)
    names = (f"{path}.{name}".strip(".") for path, part in own for name in part._parameters)
    return {name for name in names if name not in instance.draws}


def trace_start(make: Callable[[], nn.Module], instance: Instance) -> dict[str, fx.Graph]:
    """Return the program of each buffer, and of each parameter that is computed of sizes alone, or of one that its part draws, by its name."""
    parameters, buffers = undrawn(instance), has_buffers(instance.module)
    if not buffers and not parameters:
        return {}
    parts = {name.rpartition(".")[0] for name in parameters}
    drawn_there = {name for name in instance.draws if name.rpartition(".")[0] in parts}
    try:
        graphs = trace_buffers(make, parameters, drawn_there - parameters)
    except Exception:  # whatever the class's own code raises
        if buffers:
            raise
        return {}
    for name in parameters & graphs.keys():
        steps = [node for node in graphs[name].nodes if node.op != "output"]
        others = [node for node in steps if node.op != "get_attr"]
        drawn = any(DRAWS.match(operation(node)) or node.op != "call_function" for node in others)
        if drawn or len(steps) > FEW:
            del graphs[name]
    return graphs


def trace_buffers(
    make: Callable[[], nn.Module], parameters: Collection[str] = (), drawn: Collection[str] = ()
) -> dict[str, fx.Graph]:
    """Return the program of each buffer that a module is made with, and of some parameters, by its name.

    drawn: parameters that those of their part may be computed of
    """
    names: list[str] = []

    class Constructor(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with ReadNumbers():
                module = make()
            parts = module.named_modules()
            own = ((path, tensors_of(part).items()) for path, part in parts)
            buffers = {f"{path}.{name}".strip("."): x for path, one in own for name, x in one}
            both = {*parameters, *drawn}
            buffers |= {k: x for k, x in module.named_parameters() if k in both}
            names.extend(buffers)
            return tuple(x.clone() for x in buffers.values())

    with warnings.catch_warnings(), without_fills(), without_places():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Constructor(), (torch.zeros(1),), strict=False)
        graph = make_functional(exported).graph
    output = next(node for node in graph.nodes if node.op == "output")
    constants = {**exported.constants, **exported.state_dict}
    inputs = exported.graph_signature.inputs_to_lifted_tensor_constants
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.name in inputs:
            say_number(graph, node, constants[inputs[node.name]])
    results = dict(zip(names, output.args[0], strict=True))
    graphs = {}
    for name in results.keys() - drawn:
        part = name.rpartition(".")[0]
        beside = [x for x in drawn if x.rpartition(".")[0] == part]
        graphs[name] = _slice(results[name], {_source(results[x]): x for x in beside})
    return graphs


@contextmanager
def without_fills() -> Iterator[None]:
    """Leave parameters as they are while a module is made, casts too; a copy of one, as of layers that are cloned, is another one."""
    former = {name: getattr(init, name) for name in FILLS}
    for name in FILLS:
        setattr(init, name, lambda tensor, *_, **__: tensor)
    cast, nn.Module._apply = nn.Module._apply, _apply_to_buffers  # type: ignore[method-assign]
    nn.Module.register_buffer = _register_whole  # type: ignore[method-assign,assignment]
    # What is written into it is a step, which `.data` hides.
    writes = torch._C.TensorBase.__dict__["data"].__set__
    torch.Tensor.data = property(torch.Tensor.detach, writes)  # type: ignore[assignment]
    copies = {cls: cls.__deepcopy__ for cls in (torch.Tensor, nn.Parameter)}
    for cls in copies:
        cls.__deepcopy__ = _copied  # type: ignore[method-assign]
    try:
        yield
    finally:
        del torch.Tensor.data  # that of its base again
        nn.Module._apply = cast  # type: ignore[method-assign]
        nn.Module.register_buffer = _register  # type: ignore[method-assign]
        for cls, copy in copies.items():
            cls.__deepcopy__ = copy  # type: ignore[method-assign]
        for name, function in former.items():
            setattr(init, name, function)


def _apply_to_buffers(module: nn.Module, fn: Callable[..., Any], recurse: bool = True) -> nn.Module:
    """Turn a module's buffers alone into others, cast or moved: a parameter of a program cannot be another one."""
    for part in module.modules() if recurse else [module]:
        part._buffers |= {name: fn(x) for name, x in part._buffers.items() if x is not None}
    return module


_register = nn.Module.register_buffer


def _register_whole(
    module: nn.Module, name: str, tensor: torch.Tensor | None, persistent: bool = True
) -> None:
    """Register a buffer that is no view of another array: a program writes into that what is written into a view."""
    if tensor is not None and (tensor._is_view() or isinstance(tensor, nn.Buffer)):
        tensor = tensor.clone()
    _register(module, name, tensor, persistent)


def _copied(x: torch.Tensor, memo: dict[int, Any]) -> Any:
    if id(x) not in memo:
        parameter = isinstance(x, nn.Parameter)
        memo[id(x)] = nn.Parameter(torch.empty_like(x)) if parameter else x.clone()
    return memo[id(x)]


def _source(node: fx.Node) -> fx.Node:
    """Return what a value is a copy of."""
    while operation(node) in NOTHING or operation(node) == "detach":
        node = node.all_input_nodes[0]
    return node


def _slice(result: fx.Node, parameters: Mapping[fx.Node, str]) -> fx.Graph:
    """Return a graph of what one value is computed from. parameters: values that its part holds -> their names"""
    needed: set[fx.Node] = set()
    stack = [result]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += [] if node in parameters else node.all_input_nodes
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in result.graph.nodes:
        if node in needed and node in parameters:
            own = parameters[node].rpartition(".")[2]
            copies[node] = graph.create_node("get_attr", own)
            copies[node].meta = node.meta
        elif node in needed:
            copies[node] = graph.node_copy(node, lambda x: copies[x])
    graph.output((copies[result],))
    clean(graph, has_gradients=False)
    return graph
