"""Lines of a program that repeat, with an index that counts: a loop over positions becomes one step, which is scanned over.

The step stands in the graph once, between two marks: `scan_begin(states, rows, count)` gives the states before a
step and its rows, `scan_end(begin, states, results)` the states after the last one and the results of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from redco_new.pytorch.refusal import place_of
from redco_new.pytorch.scan_nodes import (
    BEGIN,
    END,
    Mark,
    Step,
    aten,
    item_of,
    join_results,
    moved_dim,
    rows_of,
    stacked_results,
)
from redco_new.pytorch.unread import drop_unread

LEAST = 8  # fewer lines that repeat are read as they are
TRIES = 4  # how many periods are tried from one line on: a step may do one thing several times


def roll_scans(graph: fx.Graph) -> None:
    """Put one step in the place of lines that repeat, where each reads what the one before gives."""
    if max(Counter(map(_signature, graph.nodes)).values(), default=0) < LEAST:
        return
    _drop_whole_slices(graph)
    first = 0
    while (place := _find(graph, first)) is not None:
        first = place
    drop_unread(graph)


def _signature(node: Step) -> Hashable:
    """Return what lines that repeat have in common; of what is no operation, nothing has."""
    if node.op != "call_function" or isinstance(node.target, Mark):
        return node
    value = node.meta.get("val")
    rank = value.ndim if isinstance(value, torch.Tensor) else None
    return str(node.target), place_of(node.meta.get("stack_trace")), rank


def _drop_whole_slices(graph: fx.Graph) -> None:
    """Drop slices of whole arrays, which an index of several dims makes of each."""
    for node in list(graph.nodes):
        if (
            node.target == aten.slice.Tensor
            and node.meta["val"].shape == node.args[0].meta["val"].shape
        ):
            node.replace_all_uses_with(node.args[0])
        elif node.target == aten.slice_scatter.default:
            whole, part = (x.meta["val"] for x in node.args[:2])
            if whole.shape == part.shape and whole.dtype == part.dtype:
                node.replace_all_uses_with(node.args[1])
    drop_unread(graph)


def _find(graph: fx.Graph, first: int) -> int | None:
    """Put one step in the place of the first lines that repeat, from a place on; return where to look on, None at the end."""
    nodes = [node for node in graph.nodes if node.op not in ("get_attr", "placeholder")]
    signatures = [_signature(node) for node in nodes]
    places: dict[Hashable, list[int]] = {}
    for i, signature in enumerate(signatures):
        places.setdefault(signature, []).append(i)
    for i in range(first, len(nodes)):
        later = [j for j in places[signatures[i]] if j > i]
        for j in later[:TRIES] if len(later) >= LEAST - 1 else ():
            period = j - i
            count = 1
            while signatures[i:j] == signatures[i + count * period : j + count * period]:
                count += 1
            if count >= LEAST:
                rows = [nodes[i + t * period : i + (t + 1) * period] for t in range(count)]
                if (steps := Steps(rows)).fits():
                    steps.replace(graph)
                    return i
    return None


class Steps:
    """Lines that repeat.

    rows: the nodes of each time
    states: place in a row -> what the first time reads in its place
    read: (array, dim, first index) -> the places of nodes that take one of its places at each time
    """

    def __init__(self, rows: Sequence[Sequence[Step]]) -> None:
        self.rows, self.count = rows, len(rows)
        self.place = {node: (t, k) for t, row in enumerate(rows) for k, node in enumerate(row)}
        self.states: dict[int, Step] = {}
        self.read: dict[tuple[Step, int, int], list[int]] = {}
        self.written: dict[int, int] = (
            {}
        )  # place of a select_scatter -> the dim of which all is written

    def fits(self) -> bool:
        """Return whether each time reads what the one before gives, and places that count."""
        for k in range(len(self.rows[0])):
            column = [row[k] for row in self.rows]
            counts = self._counts(k, column)
            if counts is None:
                return False
            if len(set(map(_outline, column))) > 1:
                return False
            for values in zip(*(list(_leaves(node, counts)) for node in column), strict=True):
                if not self._fits(values):
                    return False
        return bool(self.states) and self._writes() and self._is_closed()

    def _counts(self, k: int, column: Sequence[Step]) -> int | None:
        """Return which argument of a column counts, -1 for none; None where that is not served."""
        target = column[0].target
        place = {aten.select.int: 2, aten.select_scatter.default: 3}.get(target)
        if place is None:
            return -1
        indices = [node.args[place] for node in column]
        if len(set(indices)) == 1:
            return -1
        steps = [b - a for a, b in zip(indices, indices[1:], strict=False)]
        if set(steps) != {1} or indices[0] < 0:
            return None
        base, dim = column[0].args[0], column[0].args[place - 1]
        dim %= base.meta["val"].ndim
        if target == aten.select_scatter.default:
            if indices[0] or base.meta["val"].shape[dim] != self.count:
                return None
            self.written[k] = dim
        elif base in self.place:
            return None
        else:
            self.read.setdefault((base, dim, indices[0]), []).append(k)
        return place

    def _fits(self, values: Sequence[Any]) -> bool:
        """Return whether an argument is the same each time, or what the same time or the one before gives."""
        places = [self.place.get(x) if isinstance(x, fx.Node) else None for x in values]
        if places[1] is None:
            return all(x is values[0] or x == values[0] for x in values)
        back, k = 1 - places[1][0], places[1][1]
        if back == 0:
            return places == [(t, k) for t in range(self.count)]
        if back != 1 or places[0] is not None or not isinstance(values[0], fx.Node):
            return False
        former = self.states.setdefault(k, values[0])
        return former is values[0] and places[1:] == [(t, k) for t in range(self.count - 1)]

    def _writes(self) -> bool:
        """Return whether what is written place after place is read by that alone; it is a result then, and no state."""
        for k in self.written:
            users = {user for row in self.rows[:-1] for user in row[k].users}
            if users - {row[k] for row in self.rows} or k not in self.states:
                return False
        return True

    def _is_closed(self) -> bool:
        """Return whether nobody else reads a step but all of its results, or the states after the last one."""
        self.lists: dict[Step, int] = {}  # a node that joins all results of a place -> that place
        for k in range(len(self.rows[0])):
            column = [row[k] for row in self.rows]
            for t, node in enumerate(column):
                for user in node.users:
                    if user in self.place:
                        continue
                    joins = user.target in (aten.stack.default, aten.cat.default)
                    if joins and list(user.args[0]) == column:
                        self.lists[user] = k
                    elif t < self.count - 1 or k not in self.states:
                        return False
        return all(self._may_start(k, node) for k, node in self.states.items())

    def _may_start(self, k: int, node: Step) -> bool:
        """Return whether a state is before the first step what it is after: of one shape."""
        return node.meta["val"].shape == self.rows[0][k].meta["val"].shape

    def replace(self, graph: fx.Graph) -> None:
        """Put one step in the place of all."""
        first, last = self.rows[0], self.rows[-1]
        nodes = list(graph.nodes)
        for node in nodes[nodes.index(first[0]) :]:
            if node.op == "get_attr":  # what all steps read stands before them
                first[0].prepend(node)
        carried = [k for k in self.states if k not in self.written]
        with graph.inserting_before(first[0]):
            starts = [self._start(graph, self.states[k], first[k]) for k in carried]
            arrays = [rows_of(graph, key, self.count) for key in self.read]
            begin = graph.call_function(BEGIN, (starts, arrays, self.count))
            begin.meta = {"stack_trace": first[0].meta.get("stack_trace")}
            inner = {k: item_of(graph, begin, i, first[k]) for i, k in enumerate(carried)}
            step = dict(enumerate(first))
            for i, places in enumerate(self.read.values()):
                row = item_of(graph, begin, len(carried) + i, first[places[0]])
                step |= dict.fromkeys(places, row)
        self._read_states(inner, step)
        joined = list(dict.fromkeys(self.lists.values()))
        results = [*(step[k] for k in joined), *(first[k].args[1] for k in self.written)]
        with graph.inserting_before(last[-1].next):
            end = graph.call_function(END, (begin, [step[k] for k in carried], results))
            end.meta = dict(begin.meta)
            final = {k: item_of(graph, end, i, first[k]) for i, k in enumerate(carried)}
            stacked = [
                stacked_results(graph, end, len(carried) + i, x) for i, x in enumerate(results)
            ]
            for i, (k, dim) in enumerate(self.written.items()):
                final[k] = moved_dim(graph, stacked[len(joined) + i], 0, dim, last[k])
        for k, node in final.items():
            last[k].replace_all_uses_with(node, lambda user: user not in self.place)
        for user, k in self.lists.items():
            with graph.inserting_before(user):
                join_results(graph, user, stacked[joined.index(k)])
        gone = {k for ks in self.read.values() for k in ks} | self.written.keys()
        for row in reversed(self.rows):
            for k in reversed(range(len(row))):
                if row is not first or k in gone:
                    graph.erase_node(row[k])

    def _read_states(self, inner: Mapping[int, Step], step: Mapping[int, Step]) -> None:
        """Make the step read what the second time reads: states where that reads what the first gives."""

        def now(node: Step) -> Step:
            t, k = self.place.get(node, (2, 0))
            return inner.get(k, self.states.get(k, node)) if t == 0 else step[k] if t == 1 else node

        for k, node in enumerate(self.rows[0]):
            if step[k] is node:
                second = self.rows[1][k]
                node.args = fx.map_arg(second.args, now)
                node.kwargs = fx.map_arg(second.kwargs, now)

    def _start(self, graph: fx.Graph, node: Step, like: Step) -> Step:
        """Return what a state starts as, in the dtype that it has after a step."""
        dtype = like.meta["val"].dtype
        if node.meta["val"].dtype == dtype:
            return node
        cast = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
        cast.meta = {**node.meta, "val": node.meta["val"].to(dtype)}
        return cast


def _outline(node: Step) -> Hashable:
    return len(node.args), tuple(sorted(node.kwargs))


def _leaves(node: Step, without: int) -> Any:
    """Yield the arguments of a node, those of lists one by one, but that which counts."""
    for i, x in enumerate((*node.args, *(node.kwargs[key] for key in sorted(node.kwargs)))):
        if i != without:
            yield from x if isinstance(x, list | tuple) else [x]
