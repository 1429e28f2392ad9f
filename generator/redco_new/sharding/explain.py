"""Why each parameter lies where it does, in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from redco_new.sharding.classes import Classes
from redco_new.sharding.graph import Node
from redco_new.sharding.fused import Places
from redco_new.sharding.trace import Traced
from redco_new.sharding.divide import Ways
from collections.abc import Iterator, Mapping
from redco_new.sharding.divide import inner_axes


@dataclass(frozen=True)
class Reasons:
    """The reasons of one plan.

    split: classes that are divided.  ways: how each class can be.  shards: devices of `model`.
    places: parameters whose parts are stored apart (fused.py).
    """

    classes: Classes
    traced: Traced
    split: frozenset[Node]
    ways: dict[Node, Ways]
    shards: int
    places: Places

    def of(self, index: int) -> str:
        """The reason for the layout of parameter `index`."""
        node = next((n for n in self.classes.parameter_dims[index] if n in self.split), None)
        if node is None:
            return self.whole(index)
        return self.layout(index, node) + self.adapted(node) + self.apart(index)

    def layout(self, index: int, node: Node) -> str:
        """What splitting a class of parameter `index` means for it."""
        name = self.classes.labels[node]
        if name == "experts" and index in self.stacks(node):
            return "experts: each device holds its own; one all-reduce joins what they make"
        contracting, making = self.contracting(node), self.making(node)
        if index in contracting:
            makers = self.names(index, making)
            made = f", which {makers} made" if makers else ""
            return f"rows: contracts {name}{made}; one all-reduce sums the parts"
        if index in making:
            readers = self.names(index, contracting)
            read = f", which {readers} contracts" if readers else ""
            return f"columns: makes {name}{read}{self.afterwards(index, node)}"
        if self.looked_up(index, node):
            return f"rows of {name}: each device looks up its own; one all-reduce joins them"
        makers = self.names(index, making)
        return f"follows {name}" + (f", which {makers} makes" if makers else "")

    def whole(self, index: int) -> str:
        """Why no dim of a parameter is split over the model axis."""
        hidden = self.classes.scanned | self.classes.windows
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

    def apart(self, index: int) -> str:
        """What was done because several kernels are one parameter."""
        if index not in self.places:
            return ""
        return f"; its {self.places[index][1]} parts are stored apart, each split by itself"

    def adapted(self, node: Node) -> str:
        """What was done because the size of a split class does not divide by the shards."""
        n, parts, stored = self.shards, self.ways[node].parts, self.ways[node].stored
        sizes = self.classes.sizes[node]
        if stored:
            return f"; {max(sizes)} is padded to {stored} in memory, to divide by {n}"
        if parts < n:
            odd = min(size for size in sizes if size % n)
            return f"; {odd} does not divide by {n}: in {parts} parts, each on {n // parts} devices"
        return ""

    def afterwards(self, index: int, node: Node) -> str:
        """What happens to the columns after the product, if they do not stay where they are."""
        if ("part", node) in self.moves:
            return "; its parts end elsewhere than the shards, so they change devices once"
        if ("join", node) in self.moves:
            other = next(n for n in self.classes.parameter_dims[index] if n != node)
            name = self.classes.labels[other]
            return f"; gathered right after, since the output is {name} again, as the input"
        return ""

    @cached_property
    def moves(self) -> set[tuple[str, Node]]:
        """(kind of use, class), for each use in the program."""
        find = self.classes.graph.find
        return {(use.kind, find(n)) for use in self.classes.graph.uses for n in use.nodes}

    def stacks(self, node: Node) -> list[int]:
        """Parameters that are one kernel for each element of a class."""
        find, dots = self.classes.graph.find, self.classes.graph.dots
        operands = [v for dot in dots for v in (dot.lhs, dot.rhs) if len(v.dims) > 2]
        return [
            v.parameter for v in operands if v.parameter is not None and node in map(find, v.dims)
        ]

    def contracting(self, node: Node) -> list[int]:
        """Parameters in whose products a class is summed over."""
        return self.parameters_of(node, contracted=True)

    def making(self, node: Node) -> list[int]:
        """Parameters whose products have a class in their output, from the parameter."""
        return self.parameters_of(node, contracted=False)

    def parameters_of(self, node: Node, contracted: bool) -> list[int]:
        find = self.classes.graph.find
        found: dict[int, None] = {}
        for dot in self.classes.graph.dots:
            for operand in (dot.lhs, dot.rhs):
                if operand.parameter is None or node not in map(find, operand.dims):
                    continue
                if (node in map(find, dot.contracted)) == contracted:
                    found[operand.parameter] = None
        return list(found)

    def looked_up(self, index: int, node: Node) -> bool:
        """Whether rows of parameter `index` are looked up along a class."""
        find = self.classes.graph.find
        return len(self.classes.parameter_dims[index]) > 1 and any(
            use.kind == "index" and node in map(find, use.nodes) for use in self.classes.graph.uses
        )

    def names(self, index: int, others: list[int]) -> str:
        """Short names of other parameters: what their paths do not share with this one's."""
        own = self.traced.parameters[index].path.split("/")
        names = [self.short(own, self.traced.parameters[i].path.split("/")) for i in others]
        return ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")

    @staticmethod
    def short(own: list[str], other: list[str]) -> str:
        while len(other) > 1 and own[:1] == other[:1]:
            own, other = own[1:], other[1:]
        if len(other) > 1 and own[-1:] == other[-1:]:
            other = other[:-1]
        return "/".join(other)


def flaws(
    classes: Classes, mesh: Mapping[str, int], axes: Mapping[Node, tuple[str, ...]]
) -> Iterator[str]:
    """A line for each primitive without a rule, and for each convolution that XLA gets wrong.

    XLA (jaxlib 0.10.2, CPU; tests/sharding/test_random.py) multiplies the gradient of a grouped
    convolution's kernel by the size of each axis that splits neither its rows nor its channels.
    """
    for name, source in classes.graph.unknown.items():
        yield f"no sharding rule for the primitive {name} ({source}): its arrays are left whole"
    inner = {axis for axis in inner_axes(mesh) if mesh[axis] > 1}
    for node, source in dict.fromkeys(classes.graph.grouped):
        if idle := sorted(inner - {*axes.get(classes.graph.find(node), ())}):
            yield (
                f"grouped convolution ({source}): its channels are not split over {', '.join(idle)}, "
                "and XLA then makes the gradient of its kernel too large where data or fsdp splits "
                "the batch: choose shards that divide the channels, or model=1"
            )
