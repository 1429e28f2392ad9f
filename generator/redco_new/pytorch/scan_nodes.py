"""The nodes of a scan in a graph: the marks around its step, and what stands before the first and behind the last."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
Step = Any  # fx.Node, whose arguments may be anything


class Mark:
    """A node of a graph that computes nothing."""

    def __init__(self, name: str) -> None:
        self.__name__ = self._name = name
        self.__module__, self.__qualname__ = __name__, name

    def __call__(self, *args: Any) -> Any:
        """Refuse: a mark is printed, and not run."""
        raise NotImplementedError(self._name)

    def __repr__(self) -> str:
        return self._name


BEGIN, END = Mark("scan_begin"), Mark("scan_end")


def item_of(graph: fx.Graph, of: Step, i: int, like: Step) -> Step:
    """Return one of what a mark gives, which is like a node."""
    node = graph.call_function(operator.getitem, (of, i))
    node.meta = dict(like.meta)
    return node


def stacked_results(graph: fx.Graph, end: Step, i: int, like: Step) -> Step:
    """Return the results of all steps, of which one is like a node."""
    node = item_of(graph, end, i, like)
    value, count = like.meta["val"], end.args[0].args[2]
    node.meta["val"] = value.new_empty((count, *value.shape))
    return node


def rows_of(graph: fx.Graph, key: tuple[Step, int, int], count: int) -> Step:
    """Return the places of an array that are read one after the other, along its first dim."""
    array, dim, first = key
    moved = moved_dim(graph, array, dim, 0, array)
    if not first and moved.meta["val"].shape[0] == count:
        return moved
    node = graph.call_function(aten.slice.Tensor, (moved, 0, first, first + count))
    node.meta = {**array.meta, "val": moved.meta["val"][first : first + count]}
    return node


def moved_dim(graph: fx.Graph, array: Step, source: int, to: int, like: Step) -> Step:
    """Return an array with a dim at another place."""
    if source == to:
        return array
    node = graph.call_function(aten.movedim.int, (array, source, to))
    node.meta = {**like.meta, "val": array.meta["val"].movedim(source, to)}
    return node


def join_results(graph: fx.Graph, user: Step, stacked: Step) -> None:
    """Put the results of all steps in the place of what joins them."""
    value = user.meta["val"]
    dim = (user.args[1] if len(user.args) > 1 else user.kwargs.get("dim", 0)) % value.ndim
    whole = moved_dim(graph, stacked, 0, dim, user)
    if user.target == aten.cat.default:
        former, whole = whole, graph.call_function(aten.view.default, (whole, list(value.shape)))
        whole.meta = dict(user.meta)
        assert former.meta["val"].numel() == value.numel()
    user.replace_all_uses_with(whole)
    graph.erase_node(user)
