"""Why each parameter lies where it does, and what a user must know before trusting the layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from redco_plan.classes import Classes
from redco_plan.divide import Ways
from redco_plan.placement import Axes, inner_axes
from redco_plan.graph import Node
from redco_plan.apart.stored import Apart
from redco_plan.trace import Program

NAMES = 3  # a reason names so many other parameters, so that it stays a line


@dataclass(frozen=True)
class Reasons:
    """The reasons of one plan.

    split: classes that are divided.
    ways: how each class can be.
    shards: devices of `model`.
    apart: parameters whose parts are stored apart.
    routers: parameters that choose among experts on the axis `expert`.
    """

    classes: Classes
    program: Program
    split: frozenset[Node]
    ways: dict[Node, Ways]
    shards: int
    apart: Apart
    routers: Set[int]

    def of(self, index: int) -> str:
        """Return the reason for the layout of parameter `index`."""
        if index in self.routers:
            return "whole: each device chooses experts for its own rows" + self._apart(index)
        node = next((n for n in self.classes.parameter_dims[index] if n in self.split), None)
        if node is None:
            return self._whole(index) + self._apart(index)
        return self._split(index, node) + self._adapted(node) + self._apart(index)

    def _split(self, index: int, node: Node) -> str:
        """Say what splitting a class of parameter `index` means for it."""
        name = self.classes.labels[node]
        if name == "experts" and index in self._stacks(node):
            return "experts: each device holds its own; one all-reduce joins what they make"
        contracting = self._parameters_of(node, contracted=True)
        making = self._parameters_of(node, contracted=False)
        if index in contracting:
            makers = self._names(index, making)
            origin = f", which {makers} made" if makers else ""
            return f"rows: contracts {name}{origin}; one all-reduce sums the parts"
        if index in making:
            readers = self._names(index, contracting)
            read = f", which {readers} contracts" if readers else ""
            return f"columns: makes {name}{read}{self._afterwards(index, node)}"
        if self._looked_up(index, node):
            return f"rows of {name}: each device looks up its own; one all-reduce joins them"
        makers = self._names(index, making)
        return f"follows {name}" + (f", which {makers} makes" if makers else "")

    def _whole(self, index: int) -> str:
        """Say why no dim of a parameter is split over the model axis."""
        hidden = self.classes.loops | self.classes.windows
        real = [n for n in self.classes.parameter_dims[index] if max(self.classes.sizes[n]) > 1]
        dims = [n for n in real if n not in hidden]
        labels = self.classes.labels
        for node in dims:
            if self.ways[node].obstacle and labels[node] != "embed":
                copied = labels[node] == "kv_heads"
                more = "; each device copies the heads that it needs" if copied else ""
                return f"whole: {labels[node]} is not split: {self.ways[node].obstacle}{more}"
        names = list(dict.fromkeys(labels[n] for n in dims)) or ["a scalar"]
        return f"whole: {' and '.join(names)} {'are' if names[1:] else 'is'} not split over model"

    def _apart(self, index: int) -> str:
        """Say which part of one of the model's parameters it is, or ""."""
        path, whole = self.program.parameters[index].path, self._path(index)
        if path == whole:
            return ""
        number = int(path.rpartition("/")[2]) + 1
        return f"; part {number} of {len(self.apart[whole][1])}, stored apart"

    def _adapted(self, node: Node) -> str:
        """Say what was done because a split class does not divide by the shards, or ""."""
        n, parts, stored = self.shards, self.ways[node].parts, self.ways[node].stored
        sizes = self.classes.sizes[node]
        if stored:
            return f"; {max(sizes)} is padded to {stored} in memory, to divide by {n}"
        if parts < n:
            odd = min(size for size in sizes if size % n)
            return f"; {odd} does not divide by {n}: in {parts} parts, each on {n // parts} devices"
        return ""

    def _afterwards(self, index: int, node: Node) -> str:
        """Say what happens to the columns after the product, "" if they stay where they are."""
        if ("part", node) in self._moves:
            return "; its parts end elsewhere than the shards, so they change devices once"
        if ("join", node) in self._moves:
            other = next(n for n in self.classes.parameter_dims[index] if n != node)
            name = self.classes.labels[other]
            return f"; gathered right after, since the output is {name} again, as the input"
        return ""

    @cached_property
    def _moves(self) -> set[tuple[str, Node]]:
        """(kind of use, class), for all uses in the program."""
        find = self.classes.graph.find
        return {(use.kind, find(n)) for use in self.classes.graph.uses for n in use.nodes}

    def _stacks(self, node: Node) -> list[int]:
        """Return the parameters that are one kernel for each element of a class."""
        find, dots = self.classes.graph.find, self.classes.graph.dots
        operands = [v for dot in dots for v in (dot.lhs, dot.rhs) if len(v.dims) > 2]
        return [
            v.parameter for v in operands if v.parameter is not None and node in map(find, v.dims)
        ]

    def _parameters_of(self, node: Node, *, contracted: bool) -> list[int]:
        """Return the parameters in whose products a class is summed over, or stays in the output."""
        return list(self._products[node, contracted])

    @cached_property
    def _products(self) -> Mapping[tuple[Node, bool], Mapping[int, None]]:
        """(class, whether it is summed over) -> the parameters in whose products it is, in order."""
        find = self.classes.graph.find
        products = defaultdict[tuple[Node, bool], dict[int, None]](dict)
        for dot in self.classes.graph.dots:
            contracted = {*map(find, dot.contracted)}
            for operand in (dot.lhs, dot.rhs):
                if operand.parameter is not None:
                    for node in map(find, operand.dims):
                        products[node, node in contracted][operand.parameter] = None
        return products

    def _looked_up(self, index: int, node: Node) -> bool:
        """Return whether rows of parameter `index` are looked up along a class."""
        find = self.classes.graph.find
        return len(self.classes.parameter_dims[index]) > 1 and any(
            use.kind == "index" and node in map(find, use.nodes) for use in self.classes.graph.uses
        )

    def _names(self, index: int, others: list[int]) -> str:
        """Name other parameters in short: what their paths do not share with this one's."""
        own = self._path(index).split("/")
        paths = dict.fromkeys(map(self._path, others))
        names = [_short(own, path.split("/")) for path in paths]
        return ", ".join(names[:NAMES]) + (" and others" if len(names) > NAMES else "")

    def _path(self, index: int) -> str:
        """Return the path of parameter `index`, or of the model's own that it is a part of."""
        path = self.program.parameters[index].path
        whole = path.rpartition("/")[0]
        return whole if whole in self.apart else path


def _short(own: list[str], other: list[str]) -> str:
    """Return a path without the first folders, and the last, that it shares with `own`."""
    while len(other) > 1 and own[:1] == other[:1]:
        own, other = own[1:], other[1:]
    if len(other) > 1 and own[-1:] == other[-1:]:
        other = other[:-1]
    return "/".join(other)


def layout_warnings(
    classes: Classes, mesh: Mapping[str, int], axes: Mapping[Node, Axes]
) -> Iterator[str]:
    """Yield a line for each primitive without a rule, and each convolution that XLA gets wrong.

    XLA (jaxlib 0.10.2, CPU; tests/sharding/test_random.py) multiplies the gradient of a grouped
    convolution's kernel by the size of each axis that splits neither its rows nor its channels.
    """
    for name, source in classes.graph.unknown_primitives.items():
        yield f"no sharding rule for the primitive {name} ({source}): its arrays are left whole"
    inner = {axis for axis in inner_axes(mesh) if mesh[axis] > 1}
    for node, source in dict.fromkeys(classes.graph.group_dims):
        if idle := sorted(inner - {*axes.get(classes.graph.find(node), ())}):
            yield (
                f"grouped convolution ({source}): its channels are not split over {', '.join(idle)}, "
                "and XLA then makes the gradient of its kernel too large where data or fsdp splits "
                "the batch: choose shards that divide the channels, or model=1"
            )
