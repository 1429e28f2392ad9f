"""A collective that a step should make, the text of its array, and what several send together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from redco_plan.classes import LETTERS
from redco_plan.graph import Node, Value
from redco_plan.placement import Axes
from redco_plan.plan import Plan

PARAMETERS, GRADIENTS = "parameters", "gradients"


@dataclass(frozen=True)
class Collective:
    """A collective that a step should make.

    kind: all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute.
    phase: forward or backward.
    axes: mesh axes over which it runs.
    classes: labels of the split classes that cause it.
    array: its dims, "B S D" (a size where a dim has no letter), or "2 of B S D" where one
        collective serves two arrays; PARAMETERS or GRADIENTS.
    bytes: what a device begins or ends with, whichever is more, its rows of the batch as traced.
    times: how often a step makes it.
    sources: the lines of the model that cause it, `model.py:12 (function)`.
    """

    kind: str
    phase: str
    axes: Axes
    classes: tuple[str, ...]
    array: str
    bytes: int
    times: int
    sources: tuple[str, ...]


def bytes_sent(plan: Plan, collectives: Iterable[Collective]) -> dict[Axes, int]:
    """Return axes -> the bytes that each device sends over them in a step, on rings; in the order of the mesh.

    The first axis is the one that lies across hosts where a mesh has several, and the last ones within them.
    """
    sent: dict[Axes, float] = defaultdict(float)
    for one in collectives:
        n = math.prod(plan.mesh[axis] for axis in one.axes)
        share = {"all-reduce": 2 * (n - 1) / n, "collective-permute": 1.0}
        sent[one.axes] += one.times * one.bytes * share.get(one.kind, (n - 1) / n)
    order = [*plan.mesh]
    rising = sorted(sent, key=lambda axes: [order.index(axis) for axis in axes])
    return {axes: int(sent[axes]) for axes in rising if sent[axes]}


def collectives_per_layer(collectives: Iterable[Collective]) -> tuple[int, list[Collective]]:
    """Return (layers, what each of them sends): as many layers as explain the most bytes.

    The vocabulary is at the ends of a model, not in its layers. (1, []) if nothing repeats.
    """
    inside = [
        one for one in collectives if one.classes and not {"vocab", "layers"} & {*one.classes}
    ]

    def explained(layers: int) -> tuple[int, int]:
        return sum(o.bytes * o.times for o in inside if o.times % layers == 0), layers

    layers = max({one.times for one in inside} - {1}, key=explained, default=1)
    return layers, [one for one in inside if one.times % layers == 0 and layers > 1]


def dim_letters(plan: Plan) -> dict[tuple[Node, int], str]:
    """Return (class, size) -> its letter: classes of parameters, and B and S of the batch."""
    classes = plan.classes
    letters = {
        (node, size): LETTERS[label]
        for node, label in classes.labels.items()
        if label in LETTERS
        for size in classes.sizes[node]
    }
    for value in classes.batch[:1]:
        roles = ("batch", "sequence") if len(value.dims) == 2 else ("batch",)
        for role, node in zip(roles, value.dims, strict=False):
            if (root := classes.graph.find(node)) not in classes.labels:
                letters[root, classes.graph.sizes[node]] = LETTERS[role]
    return letters


def dims_text(plan: Plan, letters: dict[tuple[Node, int], str], value: Value) -> str:
    """Return the dims of an activation: letters, or sizes where they have none."""
    graph = plan.classes.graph
    dims = ((graph.find(node), graph.sizes[node]) for node in value.dims)
    return " ".join(letters.get(dim) or str(dim[1]) for dim in dims) or "scalar"
