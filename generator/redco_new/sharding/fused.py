"""Fused parameters, such as q, k and v in one kernel: which they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from redco_new.sharding.classes import Classes
from redco_new.sharding.apart import Apart
from redco_new.sharding.trace import Parameter


def find_fused(classes: Classes, parameters: Sequence[Parameter]) -> Apart:
    """Return the dim and the sizes of the parts of each parameter that is taken apart evenly."""
    graph, fused = classes.graph, {}
    piece_sizes: dict[int, set[int]] = defaultdict(set)
    for node, size in graph.pieces:
        piece_sizes[graph.find(node)].add(size)
    for parameter, dims in zip(parameters, classes.parameter_dims, strict=True):
        for dim, node in enumerate(dims):
            if classes.labels[node] != "fused" or len(piece_sizes[node]) != 1:
                continue
            (piece,), size = piece_sizes[node], parameter.shape[dim]
            if size > piece and size % piece == 0:
                fused[parameter.path] = (dim, (piece,) * (size // piece))
    return fused
