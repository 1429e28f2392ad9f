"""The program of a class: torch.export, made functional and taken apart by module, without what does nothing."""

from __future__ import annotations

import inspect
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import fx, nn

from redco_new.errors import RedcoError
from redco_new.pytorch.lists import is_list
from redco_new.pytorch.attention import join_attention
from redco_new.pytorch.broadcasts import is_broadcast_anyway
from redco_new.pytorch.constants import numbers_as_steps, say_number
from redco_new.pytorch.decompose import decompose, place_views
from redco_new.pytorch.exported import export, export_failure, refuse_writes
from redco_new.pytorch.drop_path import join_drops
from redco_new.pytorch.fast_paths import silence
from redco_new.pytorch.inline import inline_functions
from redco_new.pytorch.paths import own_path
from redco_new.pytorch.leaves import LEAVES
from redco_new.pytorch.refusal import cut_stack, place_of, refuse
from redco_new.pytorch.rows import Row, attribute
from redco_new.pytorch.results import give_alike, number_results
from redco_new.pytorch.scans import roll_scans
from redco_new.pytorch.stops import say_stops
from redco_new.pytorch.ties import hand_on_ties, is_tied
from redco_new.pytorch.unread import CASTS, WRITE, drop_unread, operation

# Operations that copy or check, which a functional program has no use for.
NOTHING = {"alias", "clone", "contiguous", "detach_", "lift_fresh", "lift_fresh_copy"}
BUFFER = "make that a buffer, by register_buffer, or numbers, by tolist()"
CHECKS = {"_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size"}


@dataclass(frozen=True)
class Traced:
    """A module and its program: one graph for each of its parts that is called.

    graphs: path -> graph; of a part that is called again, path@1
    outputs: how the whole nests what it gives
    orders: how its lists were taken apart (periods.py)
    copies: path of a part -> of that which it is a copy of, for another program (again.py)
    all_rows: whether all rows are computed where masks select some (selections.py)
    """

    module: nn.Module
    graphs: Mapping[str, fx.Graph]
    outputs: Any
    orders: tuple[Any, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    all_rows: bool = False


def trace(module: nn.Module, inputs: Mapping[str, Any]) -> Traced:
    """Return the program of a call by keywords. Raises RedcoError, with the class's line, where it has none."""
    try:
        with silence(), numbers_as_steps():
            exported, all_rows = export(module, inputs)
            say_stops(exported)
            refuse_writes(exported, functional := decompose(exported))
            place_views(functional)
            calls = _calls(functional.graph)
            parts = torch.export.unflatten(functional)
    except RedcoError:
        raise
    except Exception as error:  # whatever the class's own code raises
        raise export_failure(module, error) from error
    graphs = _graphs(parts)
    _name_inputs(graphs[""], [*functional.call_spec.in_spec.child(1).context])
    for path, graph in graphs.items():
        for node in graph.find_nodes(op="get_attr"):
            constant = functional.constants.get(f"{path}.{node.target}".removeprefix("."))
            if isinstance(constant, torch.Tensor) and not constant.is_meta:
                say_number(graph, node, constant)
            if str(node.target).startswith("lifted_tensor") and node.users:
                place = place_of(next(iter(node.users)).meta.get("stack_trace"))
                raise refuse(place, "it reads a tensor that is no buffer, as of a list", BUFFER)
    for path in reversed(graphs):
        _place_calls(module, path, graphs, calls)
    for path, graph in graphs.items():
        if not is_leaf(module, path):
            clean(graph)
            join_attention(graph)
            roll_scans(graph)
    give_alike(module, graphs)
    number_results(module, graphs)
    inline_functions(module, graphs)
    for graph in graphs.values():
        join_drops(graph)
    hand_on_ties(module, graphs)
    _drop_inputs(graphs)
    return Traced(module, graphs, functional.call_spec.out_spec, all_rows=all_rows)


def _name_inputs(graph: fx.Graph, names: Sequence[str]) -> None:
    """Name the inputs of the whole as its call has them, which PyTorch writes in small letters."""
    places = graph.find_nodes(op="placeholder")
    for node, name in zip(places, names, strict=True) if len(places) == len(names) else ():
        node.target = name


def _graphs(parts: nn.Module) -> dict[str, fx.Graph]:
    """Return path -> graph of what is called; a part that is called again has its own within each call of what holds it."""
    graphs: dict[str, fx.Graph] = {}
    for path, part in parts.named_modules(remove_duplicate=False):
        if not hasattr(part, "graph"):
            continue
        if part.graph not in graphs.values():
            graphs[path] = part.graph
        elif "@" in path:
            graphs[path] = fx.Graph()
            graphs[path].output(graphs[path].graph_copy(part.graph, {}))
    return _without_marks(graphs)


def _without_marks(graphs: Mapping[str, fx.Graph]) -> dict[str, fx.Graph]:
    """Return graphs by paths in which the first call of a part is by its own name: within a part that is called again PyTorch may have its second alone."""
    there = {".".join(path.split(".")[:i]) for path in graphs for i in range(1, 99)}

    def moved(path: str) -> str:
        before, after = "", ""
        for part in path.split("."):
            own = f"{before}.{own_path(part)}".removeprefix(".")
            before = f"{before}.{part}".removeprefix(".")
            after += "." + (part if own in there else own_path(part))
        return after.removeprefix(".")

    for path, graph in graphs.items():
        rename_targets(path, graph, moved)
    return {moved(path): graph for path, graph in graphs.items()}


def access(whole: nn.Module, path: str) -> str:
    """Return how Flax reads a part of a module: .blocks[0].mlp"""
    text, part = "", whole
    for name in path.split(".") if path else ():
        if isinstance(part, nn.Sequential) and part is not whole:
            text += f".layers[{[*part._modules].index(name)}]"
        elif isinstance(part, nn.ModuleList) and is_list(part):
            text += f"[{name}]"
        elif isinstance(part, nn.ModuleDict) and is_list(part):
            text += f"[{name!r}]"
        elif isinstance(part, Row):
            text += f".{attribute(part, name)}"
        else:
            text += f".{name}" if not name.isdigit() else f".layers[{name}]"
        part = part.get_submodule(name)
    return text


def rename_targets(path: str, graph: fx.Graph, moved: Callable[[str], str]) -> None:
    """Make the graph of a part name parts and parameters by where they are now. moved: where what was at a path is"""
    own = moved(path)
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            whole = moved(f"{path}.{node.target}".removeprefix("."))
            node.target = whole.removeprefix(f"{own}.") if own else whole


def is_leaf(module: nn.Module, path: str) -> bool:
    """Return whether Flax has the layer that a part is."""
    path = own_path(path)
    return type(module.get_submodule(path)) in LEAVES and not is_tied(module, path)


def clean(graph: fx.Graph, has_gradients: bool = True) -> None:
    """Take out of a graph what copies and checks, and stops gradients where there are none."""
    nothing = NOTHING if has_gradients else {*NOTHING, "detach"}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        name = operation(node)
        same = name in CASTS and node.meta["val"].dtype == node.args[0].meta["val"].dtype
        same |= name == "squeeze" and _same_kind(node, node.args[0])
        same |= is_broadcast_anyway(node)
        same |= node.target is operator.getitem and operation(node.args[0]) == "native_dropout"
        if name in CHECKS:
            graph.erase_node(node)
        elif name == "copy" and _same_kind(node, node.args[1]):
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
        elif name == "_unsafe_view":  # a view of what was copied for it, which sizes decide
            node.target = torch.ops.aten.view.default
        elif name in nothing or same:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is operator.getitem and _are_of_one_shape(node.args[0]):
            node.replace_all_uses_with(node.args[0].args[0][node.args[1]])
            graph.erase_node(node)
        elif node.target == WRITE and not _follows(node.args[1]):
            node.replace_all_uses_with(node.args[1])  # a table, made anew
            graph.erase_node(node)
        elif name == "cat" and (arrays := _filled(node)) is not None:
            node.replace_all_uses_with(arrays)
            graph.erase_node(node)
    drop_unread(graph)


def _follows(node: Any) -> bool:
    """Return whether a value follows from what a program reads."""
    seen, left = set(), [node]
    while left:
        x = left.pop()
        if x.op in ("placeholder", "get_attr", "call_module"):
            return True
        left += [] if x in seen else x.all_input_nodes
        seen.add(x)
    return False


def _filled(node: Any) -> fx.Node | None:
    """Return the one array that is joined with empty ones alone, as with a cache in which nothing is yet; None for others."""
    arrays: list[fx.Node] = [x for x in node.args[0] if x.meta["val"].shape != (0,)]
    return arrays[0] if len(arrays) == 1 else None


def _are_of_one_shape(node: Any) -> bool:
    """Return whether a step makes arrays have one shape, as those of a loss, which have it."""
    arrays = node.args[0] if operation(node) == "broadcast_tensors" else ()
    return len({x.meta["val"].shape for x in arrays}) == 1


def _same_kind(one: fx.Node, other: fx.Node) -> bool:
    """Return whether two arrays have one shape and one dtype."""
    x, y = one.meta["val"], other.meta["val"]
    return x.shape == y.shape and x.dtype == y.dtype


def _calls(graph: fx.Graph) -> dict[str, list[str]]:
    """Return the path of a part -> a traceback of each of its calls."""
    calls = defaultdict[str, dict[Any, str]](dict)
    for node in graph.nodes:
        parts = [*(node.meta.get("nn_module_stack") or {}).items()]
        for depth, (_, (path, _)) in enumerate(parts if node.meta.get("stack_trace") else ()):
            key = tuple(key for key, _ in parts[: depth + 1])
            calls[own_path(path)][key] = node.meta["stack_trace"]
    return {path: [*stacks.values()] for path, stacks in calls.items()}


def _place_calls(
    module: nn.Module,
    path: str,
    graphs: Mapping[str, fx.Graph],
    calls: Mapping[str, Sequence[str]],
) -> None:
    """Record with each call of a part where it is in the class: torch.export notes it with what the part does."""
    cls: Any = type(module.get_submodule(own_path(path)))
    if not (own := _place_of_class(cls)):
        return
    is_own = not cls.__module__.startswith("torch.nn.")
    number = Counter[str]()
    for node in graphs[path].find_nodes(op="call_module"):
        part = f"{path}.{node.target}".removeprefix(".")
        stacks = calls.get(own_path(part), ())
        if part in graphs and stacks:
            stack = stacks[min(number[part], len(stacks) - 1)]
            number[part] += 1
            node.meta["stack_trace"] = cut_stack(stack, *own) if is_own else stack


@cache
def _place_of_class(cls: Any) -> tuple[str | None, range] | None:
    """Return the file and the lines of a class; None for one that PyTorch made of another. Python parses the whole file for it."""
    try:
        lines, first = inspect.getsourcelines(cls)
        file = inspect.getsourcefile(cls)
    except OSError:
        return None
    return file, range(first, first + len(lines))


def _drop_inputs(graphs: Mapping[str, fx.Graph]) -> None:
    """Drop the inputs of parts that they do not read, as masks that attention says otherwise; not of the whole."""
    for path in sorted(filter(None, graphs), key=lambda path: -path.count(".")):
        inputs = [node for node in graphs[path].nodes if node.op == "placeholder"]
        unread = [i for i, node in enumerate(inputs) if not node.users]
        calls = [
            node
            for caller in graphs
            for node in graphs[caller].nodes
            if node.op == "call_module" and f"{caller}.{node.target}".removeprefix(".") == path
        ]
        if unread and len(inputs) > 1 and all(len(call.args) == len(inputs) for call in calls):
            for call in calls:
                call.args = tuple(x for i, x in enumerate(call.args) if i not in unread)
            for i in unread:
                graphs[path].erase_node(inputs[i])
