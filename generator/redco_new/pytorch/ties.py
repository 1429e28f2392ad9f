"""Parameters that a class has under several names: one in the printed model."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from torch import fx, nn

from redco_new.pytorch.paths import own_path


@functools.lru_cache(maxsize=8)
def tied_names(module: nn.Module) -> Mapping[str, str]:
    """Return the names of a module's parameters that an earlier one has too -> that one."""
    first: dict[int, str] = {}
    names = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name:
            names[name] = other
    return names


def is_tied(module: nn.Module, path: str) -> bool:
    """Return whether a part has a parameter of another one: it is written out, as a function of that."""
    return any(
        f"{path}.{name}" in tied_names(module) for name in module.get_submodule(path)._parameters
    )


def hand_on_ties(module: nn.Module, graphs: Mapping[str, fx.Graph]) -> None:
    """Make a parameter that a part shares with one outside of it an argument of its calls."""
    for path in sorted(filter(None, graphs), key=lambda path: -path.count(".")):
        own = own_path(path)
        outer: dict[str, list[fx.Node]] = {}
        for node in graphs[path].nodes:
            first = (
                tied_names(module).get(f"{own}.{node.target}") if node.op == "get_attr" else None
            )
            if first and not first.startswith(f"{own}."):
                outer.setdefault(str(node.target), []).append(node)
        for target, reads in outer.items():
            _make_input(graphs[path], reads)
            for caller, graph in graphs.items():
                for call in [n for n in graph.nodes if n.op == "call_module"]:
                    if f"{caller}.{call.target}".removeprefix(".") == path:
                        with graph.inserting_before(call):
                            read = graph.create_node("get_attr", f"{call.target}.{target}")
                        read.meta = dict(reads[0].meta)
                        call.args = (*call.args, read)


def _make_input(graph: fx.Graph, reads: list[fx.Node]) -> None:
    """Put one more input, the last, in the place of reads of a parameter."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    with graph.inserting_after(inputs[-1]) if inputs else graph.inserting_before():
        entry = graph.placeholder(str(reads[0].target).replace(".", "_"))
    entry.meta = dict(reads[0].meta)
    for node in reads:
        node.replace_all_uses_with(entry)
        graph.erase_node(node)
