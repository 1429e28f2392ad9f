"""The classes of a plan in words: what each is, how it is split, and why it is or is not."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jax.extend.core import Literal
from redco_plan import (
    EXPERT,
    FSDP,
    LETTERS,
    STAGE,
    Divider,
    Node,
    axes_of_entry,
    find_ways,
    inner_axes,
    neighbouring_classes,
)

from redco_new.inspect.schema import ClassRow
from redco_new.inspect.units import join_words

if TYPE_CHECKING:
    from redco_plan import Plan

ROLES = {
    "embed": "the residual stream, which each layer reads and adds to",
    "heads": "attention heads",
    "kv_heads": "heads of keys and values, each read by several heads of queries",
    "head_dim": "the inside of an attention head",
    "mlp": "hidden units between two kernels",
    "vocab": "words of the vocabulary",
    "positions": "places in a sequence, looked up in a table",
    "layers": "the layers, stacked in one array",
    "window": "the window of a convolution",
    "experts": "experts, each with kernels of its own",
    "fused": "several projections side by side in one kernel",
    "inner": "units that one kernel makes",
}
_Description = tuple[str, tuple[int, ...], tuple[str, ...], str]  # label, sizes, axes, why
NAMED = 3  # parameters are named up to this many: more make a row of the table two lines


def describe_classes(plan: Plan) -> list[ClassRow]:
    """Describe each class of a plan; those that are alike are one row."""
    words = _ClassWords(plan)
    alike: dict[_Description, list[Node]] = defaultdict(list)
    for node in sorted(plan.classes.labels, key=lambda n: plan.classes.order[n]):
        if max(plan.classes.sizes[node]) > 1:
            alike[words.describe(node)].append(node)
    uses = Counter(n for dims in plan.classes.parameter_dims for n in set(dims))
    return [
        {
            "label": label,
            "letter": LETTERS.get(label),
            "sizes": list(sizes),
            "count": len(nodes),
            "parameters": sum(uses[node] for node in nodes),
            "axes": list(axes),
            "parts": math.prod(plan.mesh[axis] for axis in axes),
            "fsdp": sum(words.by_fsdp[node] for node in nodes),
            "what": ROLES[label],
            "why": why,
        }
        for (label, sizes, axes, why), nodes in alike.items()
    ]


class _ClassWords:
    """What can be said of each class of one plan.

    plan: the plan
    shards: the size of the model axis, or of all axes together that it is taken apart into
    ways: how each class can be split
    odd: how it could be split without changing what is stored
    near: the classes that share an array with it
    by_fsdp: how many parameters have it split by fsdp
    makers: the parameters that make it, by their indices
    readers: those that contract it
    tables: those that are looked up along it
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.shards = math.prod(plan.mesh[axis] for axis in inner_axes(plan.mesh))
        self.ways = find_ways(plan.classes, plan.divider)
        self.odd = find_ways(plan.classes, Divider(self.shards, adapt=False))
        self.near = neighbouring_classes(plan.classes)
        self.by_fsdp = self.split_by_fsdp()
        self.makers, self.readers, self.tables = self.find_uses()

    def describe(self, node: Node) -> _Description:
        """Return (label, sizes, axes, why) of a class."""
        sizes = tuple(sorted(self.sizes(node), reverse=True))
        axes, label = self.plan.axes.get(node, ()), self.plan.classes.labels[node]
        if self.plan.mesh.get(STAGE, 1) > 1 and node in self.plan.classes.loops:
            return label, sizes, (STAGE,), "each stage computes with its own"
        return label, sizes, axes, self.why(node)

    def sizes(self, node: Node) -> set[int]:
        """Return the sizes that dims of parameters have in this class."""
        pairs = zip(self.plan.classes.parameter_dims, self.plan.parameters, strict=True)
        return {
            size
            for dims, parameter in pairs
            for n, size in zip(dims, parameter.shape, strict=True)
            if n == node
        }

    def why(self, node: Node) -> str:
        """Return who makes and reads a class that is split, or why it is not."""
        if node not in self.plan.axes:
            return self.why_whole(node)
        makers, readers = self.names(self.makers[node]), self.names(self.readers[node])
        tables = self.names(self.tables[node])
        clauses = [f"rows of {tables} are looked up"] if tables else []
        clauses += [f"made by columns of {makers}"] if makers else []
        clauses += [f"contracted by rows of {readers}"] if readers else []
        return ", ".join(clauses or ["follows the arrays that have it"]) + self.remedy(node)

    def remedy(self, node: Node) -> str:
        """Return what was done because its size does not divide, or ""."""
        parts = math.prod(self.plan.mesh[axis] for axis in self.plan.axes[node])
        odd, stored = self.odd[node].obstacle, self.ways[node].stored
        if EXPERT in self.plan.axes[node] or not odd:
            return ""
        if stored:
            return f"; {odd}, so it is padded to {stored} in memory"
        return f"; {odd}: in {parts} parts, each on {self.shards // parts} devices"

    def why_whole(self, node: Node) -> str:
        """Return an obstacle, or the classes that are split instead."""
        if obstacle := self.ways[node].obstacle:
            return f"not split: {obstacle}"
        labels = self.plan.classes.labels
        instead = sorted({labels[n] for n in self.near[node] if n in self.plan.axes})
        if instead:
            return f"not split over model: {join_words(instead)} of the same arrays are"
        return "not split over model: it would send more than it saves"

    def split_by_fsdp(self) -> Counter[Node]:
        """Return how many parameters have each class split by fsdp."""
        pairs = zip(self.plan.classes.parameter_dims, self.plan.partitions, strict=True)
        return Counter(
            node
            for dims, spec in pairs
            for node, entry in zip(dims, spec, strict=True)
            if FSDP in axes_of_entry(entry) and self.plan.mesh[FSDP] > 1
        )

    def find_uses(self) -> tuple[dict[Node, list[int]], ...]:
        """Return parameters by class: those that make it, contract it, are looked up along it."""
        graph = self.plan.classes.graph
        makers: dict[Node, list[int]] = defaultdict(list)
        readers: dict[Node, list[int]] = defaultdict(list)
        tables: dict[Node, list[int]] = defaultdict(list)
        for dot in graph.dots:
            summed = set(map(graph.find, dot.contracted))
            for operand in (dot.lhs, dot.rhs):
                for node in map(graph.find, operand.dims):
                    if operand.parameter is not None:
                        (readers if node in summed else makers)[node].append(operand.parameter)
        for body, eqn, _ in graph.bodies[0].equations():
            if eqn.primitive.name == "gather" and not isinstance(eqn.invars[0], Literal):
                table = body.values[eqn.invars[0]]
                for i in eqn.params["dimension_numbers"].start_index_map:
                    if table.parameter is not None:
                        tables[graph.find(table.dims[i])].append(table.parameter)
        return makers, readers, tables

    def names(self, indices: Iterable[int]) -> str:
        """Return the paths of some parameters, "*" for the number of a layer."""
        paths = dict.fromkeys(star_layers(self.plan.parameters[i].path) for i in indices)
        return ", ".join(list(paths)[:NAMED]) + (" and others" if len(paths) > NAMED else "")


def star_layers(path: str) -> str:
    """Return `layers/3/up` as `layers/*/up`, so that alike layers have one name."""
    *folders, name = path.split("/")
    return "/".join([*("*" if part.isdigit() else part for part in folders), name])
