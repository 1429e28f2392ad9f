"""Which classes to split over one mesh axis: the cheapest set in which no array is split twice.

What a set costs is cost.py's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from redco_plan.classes import Classes
from redco_plan.cost import CostModel
from redco_plan.graph import Node

Conflicts = dict[Node, frozenset[Node]]

# Classes that are tried both ways, in all, before the search goes on greedily. A decoder needs one,
# for its residual stream. The limit bounds the time: tangles of 300 classes end within 3 seconds
# (tests/sharding/test_search.py), and the layouts of the zoo there are the same with 4.
BRANCHES = 64

# A class that divides no work is split only if that saves more than this share of the model's memory,
# so that a small table has no collective of its own. Tried: the zoo's layouts are the same with 0;
# with 5 %, a ViT's differ from an expert's (tests/sharding/test_layouts.py).
TRIFLE = 5e-3


def find_conflicts(classes: Classes, nodes: Set[Node]) -> Conflicts:
    """Return for each class those that share an array with it: at most one of them may be split.

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


def choose_classes(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """Return the set of classes to split: no two of them in conflict, the cheapest that it finds."""
    return _search(model, conflicts, iter(range(BRANCHES)))


def _search(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """Return the best sets of each group of classes that are connected by conflicts, together."""
    best = (_branch(model, group, branches) for group in _components(conflicts))
    return frozenset().union(*best)


def _branch(model: CostModel, conflicts: Conflicts, branches: Iterator[int]) -> frozenset[Node]:
    """Try the class with the most conflicts (the residual stream, as a rule) both ways.

    Classes without conflicts are split if that divides work, or moves less than it saves.
    """
    hub = max(conflicts, key=lambda node: len(conflicts[node]))
    if not conflicts[hub]:
        return frozenset(node for node in conflicts if _pays(model, node))
    if next(branches, None) is None:
        return _greedy(model, conflicts)
    with_hub = _search(model, _without(conflicts, {hub, *conflicts[hub]}), branches) | {hub}
    without_hub = _search(model, _without(conflicts, {hub}), branches)
    return min(without_hub, with_hub, key=model.cost)


def _greedy(model: CostModel, conflicts: Conflicts) -> frozenset[Node]:
    """Add a class at a time, the most work first, where it pays for those that it excludes."""
    chosen: set[Node] = set()
    sums, cost = model.nothing, model.price(model.nothing)
    for node in sorted(conflicts, key=model.work_of, reverse=True):
        out, into = conflicts[node] & chosen, frozenset({node})
        others = model.exchange(sums, chosen, out, into)
        if (price := model.price(others)) < cost:
            sums, cost = others, price
            chosen.difference_update(out)
            chosen.add(node)
    return frozenset(chosen)


def _pays(model: CostModel, node: Node) -> bool:
    """Return whether splitting a class pays by itself."""
    alone, nothing = model.cost(frozenset({node})), model.price(model.nothing)
    return alone.time < nothing.time or model.saved(node) > TRIFLE * nothing.bytes


def _without(conflicts: Conflicts, nodes: Set[Node]) -> Conflicts:
    """Return the conflicts of all other classes than `nodes`, among themselves."""
    return {node: others - nodes for node, others in conflicts.items() if node not in nodes}


def _components(conflicts: Conflicts) -> Iterator[Conflicts]:
    """Yield the groups of classes that no conflict connects."""
    left = dict(conflicts)
    while left:
        group: set[Node] = set()
        edge = [next(iter(left))]
        while edge:
            node = edge.pop()
            if node not in group:
                group.add(node)
                edge += conflicts[node]
        yield {node: left.pop(node) for node in list(left) if node in group}
