"""Ties between dims that hold only if nothing in the rest of the program speaks against them."""

from __future__ import annotations

from redco_new.sharding.dims import Graph, Tie
from redco_new.sharding.ways import Divider


def settle(graph: Graph, divider: Divider) -> None:
    """Unite the two dims of each tie, or record what it costs that they are two.

    A dim that is folded into (parts, rest) is the same as its parts, unless the parts are then
    taken apart: those of a fused kernel (q, k, v) are no shards, nor are the chunks of a sequence
    that a loop runs over. The output dim of a kernel is the same as the kernel's, unless that
    gives the kernel one class twice: then its columns are a class of their own, and come together
    after the product.
    A dim that is repeated is the same as the longer one (kv heads, heads), unless the longer one
    can have more parts: then each device copies what it needs.
    """
    taken = graph.used("part")
    looped = {graph.find(m) for m in graph.scanned}
    for tie in of_kind(graph, "part"):
        chunks = looped if tie.apart.value.data else set()
        if apart := graph.find(tie.b) in taken | chunks:
            graph.pieces.append((tie.a, graph.sizes[tie.a] // graph.sizes[tie.b]))
        join(graph, tie, apart)
    for tie in of_kind(graph, "repeat"):
        join(graph, tie, divider.parts(graph.sizes[tie.a]) < divider.parts(graph.sizes[tie.b]))
    for tie in of_kind(graph, "join"):
        others = {graph.find(m) for m in tie.array if m != tie.a}
        join(graph, tie, graph.find(tie.b) in others)
    graph.ties.clear()


def of_kind(graph: Graph, kind: str) -> list[Tie]:
    return [tie for tie in graph.ties if tie.apart.kind == kind]


def join(graph: Graph, tie: Tie, apart: bool) -> None:
    if apart:
        graph.uses.append(tie.apart)
    else:
        graph.unite(tie.a, tie.b)
