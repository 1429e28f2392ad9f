"""Which classes to split over one mesh axis: the cheapest set in which no array is split twice."""

from __future__ import annotations

from collections.abc import Iterator, Set

from redco_new.sharding.classes import Classes
from redco_new.sharding.cost import CostModel
from redco_new.sharding.dims import Node

Conflicts = dict[Node, frozenset[Node]]

# Classes that are tried both ways, in all. A decoder needs one, for its residual stream.
BRANCHES = 64

# Memory that is not worth a collective of its own, as a share of the model's.
TRIFLE = 5e-3


def find_conflicts(classes: Classes, nodes: Set[Node]) -> Conflicts:
    """For each class, those that share an array with it: at most one of them may be split.

    In the order in which the program uses the classes, so that no name decides between equals.
    """
    find = classes.graph.find
    together: dict[Node, set[Node]] = {
        node: set() for node in sorted(nodes, key=classes.order.__getitem__)
    }
    for dims in {frozenset(map(find, value.dims)) & nodes for value in classes.graph.values}:
        for node in dims:
            together[node] |= dims - {node}
    return {node: frozenset(others) for node, others in together.items()}


def choose(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """The set of classes to split."""
    return search(model, conflicts, iter(range(BRANCHES)))


def search(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """The best set of each group of classes that are connected by conflicts, together."""
    best: frozenset[Node] = frozenset()
    for group in components(conflicts):
        best |= branch(model, group, branches)
    return best


def branch(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """The class with the most conflicts (the residual stream, as a rule) is tried both ways.

    Classes without conflicts are split if that divides work, or moves less than it saves.
    """
    hub = max(conflicts, key=lambda node: len(conflicts[node]))
    if not conflicts[hub]:
        return frozenset(node for node in conflicts if worth(model, node))
    if next(branches, None) is None:
        return greedy(model, conflicts)
    with_hub = search(model, without(conflicts, {hub, *conflicts[hub]}), branches) | {hub}
    without_hub = search(model, without(conflicts, {hub}), branches)
    return min(without_hub, with_hub, key=model.cost)


def greedy(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """One class at a time, the most work first, where it pays for those that it excludes."""
    chosen: frozenset[Node] = frozenset()
    cost = model.cost(chosen)
    for node in sorted(conflicts, key=model.work_of, reverse=True):
        tried = (chosen - conflicts[node]) | {node}
        if (price := model.cost(tried)) < cost:
            chosen, cost = tried, price
    return chosen


def worth(model: CostModel, node: Node) -> bool:
    """Whether splitting a class pays by itself."""
    alone, nothing = model.cost(frozenset({node})), model.cost(frozenset())
    return alone.time < nothing.time or model.saved(node) > TRIFLE * nothing.bytes


def without(conflicts: Conflicts, gone: Set[Node]) -> Conflicts:
    return {node: others - gone for node, others in conflicts.items() if node not in gone}


def components(conflicts: Conflicts) -> Iterator[Conflicts]:
    """Groups of classes that no conflict connects."""
    left = dict(conflicts)
    while left:
        found, edge = set(), [next(iter(left))]
        while edge:
            node = edge.pop()
            if node not in found:
                found.add(node)
                edge += conflicts[node]
        yield {node: left.pop(node) for node in list(left) if node in found}
