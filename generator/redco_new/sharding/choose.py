"""Which classes to split over one mesh axis: the cheapest set in which no array is split twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from redco_new.sharding.classes import Classes
from redco_new.sharding.cost import CostModel
from redco_new.sharding.dims import Node

Conflicts = dict[Node, frozenset[Node]]


def candidates(classes: Classes, n: int) -> dict[Node, str]:
    """For each class of the parameters: "" if `n` devices can split it, else why not."""
    found = {}
    for node in classes.labels:
        sizes = classes.sizes[node]
        odd = sorted(size for size in sizes if size % n)
        if node in classes.scanned:
            found[node] = "a loop runs over it"
        elif node in classes.inputs:
            found[node] = "it is a dim of the batch"
        elif odd:
            found[node] = f"{odd[0]} does not divide by {n}"
        elif any(Counter(dims)[node] > 1 for dims in classes.parameter_dims):
            found[node] = "a parameter has it twice"
        else:
            found[node] = ""
    return found


def find_conflicts(classes: Classes, nodes: Set[Node]) -> Conflicts:
    """For each class, those that share an array with it: at most one of them may be split."""
    find = classes.graph.find
    together: dict[Node, set[Node]] = {node: set() for node in nodes}
    for dims in {frozenset(map(find, value.dims)) & nodes for value in classes.graph.values}:
        for node in dims:
            together[node] |= dims - {node}
    return {node: frozenset(others) for node, others in together.items()}


def choose(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """The set of classes to split.

    The class with the most conflicts (the residual stream, as a rule) is tried both ways; classes
    without conflicts are split if that divides work, or moves less than it saves.
    """
    hub = max(conflicts, key=lambda node: (len(conflicts[node]), -node), default=None)
    if hub is None or not conflicts[hub]:
        return frozenset(node for node in conflicts if worth(model, node))
    with_hub = choose(model, without(conflicts, {hub, *conflicts[hub]})) | {hub}
    without_hub = choose(model, without(conflicts, {hub}))
    return min(without_hub, with_hub, key=model.cost)


def worth(model: CostModel, node: Node) -> bool:
    """Whether splitting a class pays by itself."""
    alone = frozenset({node})
    return model.work_of(node) > 0 or model.cost(alone).bytes < model.cost(frozenset()).bytes


def without(conflicts: Conflicts, gone: Set[Node]) -> Conflicts:
    return {node: others - gone for node, others in conflicts.items() if node not in gone}
