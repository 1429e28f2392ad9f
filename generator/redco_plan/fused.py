"""Fused parameters, such as q, k and v in one kernel: which they are, and where their parts begin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise

from redco_plan.apart.stored import Apart
from redco_plan.apart.sums import add_products_first
from redco_plan.classes import Classes
from redco_plan.graph import Graph, Node
from redco_plan.trace import Parameter

Dim = tuple[Node, int]  # class, size
Relation = tuple[Dim, Dim, int, int]  # whole, part, where it begins, and its scale


def find_fused(classes: Classes, parameters: Sequence[Parameter]) -> Apart:
    """Return the dim and the sizes of the parts of each parameter whose columns are cut."""
    fused: dict[str, tuple[int, tuple[int, ...]]] = {}
    rows = zip(parameters, classes.parameter_dims, strict=True)
    dims = [
        (parameter, dim, (node, parameter.shape[dim]))
        for parameter, nodes in rows
        for dim, node in enumerate(nodes)
        if classes.labels[node] == "fused"
    ]
    cuts = _find_cuts(classes.graph, {dim for *_, dim in dims})
    for parameter, number, (node, size) in dims:
        if inner := cuts.get((node, size)):
            parts = tuple(b - a for a, b in pairwise((0, *sorted(inner), size)))
            fused[parameter.path] = (number, parts)
    return fused


def is_rewritten(classes: Classes) -> bool:
    """Return whether the layout gains by a program of its own, even if no parameter is fused.

    Where rows of the batch are merged with a dim that a parameter has, as its heads; and where scaled
    products are added up, as those of experts.
    """
    find = classes.graph.find
    rows = {find(value.dims[0]) for value in classes.batch if value.dims}
    own = classes.labels.keys() - classes.inputs - classes.loops - classes.windows
    merges = ({find(node) for node in nodes} for nodes in classes.graph.merges)
    program = classes.graph.bodies[0].jaxpr
    merged = any(nodes & rows and nodes & own for nodes in merges)
    return merged or add_products_first(program) is not program


def _find_cuts(graph: Graph, dims: Set[Dim]) -> dict[Dim, set[int]]:
    """Return the places at which `dims`, and all that these follow from, are cut, those at their ends left out.

    A part that is cut cuts the whole, and the other way round: x, B and C of Mamba2 are cut out of
    what a convolution makes of a part of the columns of a kernel.
    """
    cuts: dict[Dim, set[int]] = defaultdict(set)
    relations, others = set[Relation](), {*_relations(graph)}
    while joined := {x for x in others if not dims.isdisjoint(x[:2])}:
        relations, others = relations | joined, others - joined
        dims = {*dims, *(dim for x in joined for dim in x[:2])}
    before = -1
    while before != (before := sum(map(len, cuts.values()))):
        for whole, part, start, scale in relations:
            ends = {start, start + part[1] * scale}
            down = {(cut - start) // scale for cut in cuts[whole] if (cut - start) % scale == 0}
            cuts[part] |= {cut for cut in down if 0 < cut < part[1]}
            up = ends | {start + cut * scale for cut in cuts[part]}
            cuts[whole] |= {cut for cut in up if 0 < cut < whole[1]}
    return cuts


def _relations(graph: Graph) -> Iterator[Relation]:
    """Yield (whole, part, start, scale): element i of the part begins at start + i * scale."""

    def dim(node: Node) -> Dim:
        return graph.find(node), graph.sizes[node]

    for whole, start, part in graph.runs:
        yield dim(whole), dim(part), start, 1
    for whole, major in graph.folds:
        yield dim(whole), dim(major), 0, graph.sizes[whole] // graph.sizes[major]
