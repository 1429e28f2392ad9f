"""What the inputs of a part are called, and in which order it takes them: as its own forward has them, where that is clear."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx, nn

from redco_new.pytorch.names import input_names

EMBEDS = "inputs_embeds"  # what transformers calls the input of its first layer


def order_of_inputs(part: nn.Module, names: Sequence[str]) -> tuple[int, ...]:
    """Return the order of a part's inputs: as its forward has them, where that is clear; what attends last."""
    theirs = _parameters(part)

    def place(i: int) -> tuple[int, str]:
        if names[i] == "attend":
            return len(theirs) + 1, ""
        return theirs.index(names[i]) if names[i] in theirs else len(theirs), names[i]

    return tuple(sorted(range(len(names)), key=place))


def name_inputs(part: nn.Module, graphs: Mapping[str, fx.Graph], path: str) -> list[str]:
    """Return names of a part's inputs: those of its own forward where that is clear."""
    places = graphs[path].find_nodes(op="placeholder")
    parameters, theirs = _parameters(part), input_names(graphs, path)
    if len(places) == 1 and parameters and not places[0].meta.get("attend"):
        return theirs if theirs[0] in parameters else parameters[:1]
    pairs = [*zip(places, theirs, strict=True)]
    strangers = [x for node, x in pairs if x not in parameters and not node.meta.get("attend")]
    # What goes from one layer to the next is of the shape of what a layer gives.
    carried = [
        x for node, x in pairs if x in strangers and _shape(node) == _shape_of_result(graphs[path])
    ]
    names: list[str] = []
    for node, name in pairs:
        if node.meta.get("attend"):
            names.append("attend")
            continue
        first = not name or name == EMBEDS and EMBEDS not in parameters
        first = first or [name] in (strangers, carried)
        if first and parameters and parameters[0] not in theirs:
            name = parameters[0]  # what all layers have, whatever the first one's caller says
        base, number = name or "x", 1
        while (base if number == 1 else f"{base}_{number}") in names:
            number += 1
        names.append(base if number == 1 else f"{base}_{number}")
    return names


def _parameters(part: nn.Module) -> list[str]:
    return [name for name in inspect.signature(type(part).forward).parameters if name != "self"]


def _shape(node: Any) -> Any:
    return getattr(node.meta.get("val") if isinstance(node, fx.Node) else None, "shape", None)


def _shape_of_result(graph: fx.Graph) -> Any:
    """Return the shape of the first array that a program gives."""
    output: Any = next(node for node in graph.nodes if node.op == "output").args[0]
    return _shape(output[0] if isinstance(output, list | tuple) and output else output) or ()
