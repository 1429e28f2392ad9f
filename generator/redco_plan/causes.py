"""Plan -> what makes arrays move between devices: each split class, at each place of the program.

Counted as Megatron counts (Narayanan et al. 2021, section 3): a product over a split dim sums its
parts going forward; one that makes a split dim sums a gradient going backward.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, replace

from redco_plan.classes import routers
from redco_plan.placement import Axes
from redco_plan.flow import Flow
from redco_plan.graph import Dot, Node, Use, Value
from redco_plan.plan import Plan

FORWARD, BACKWARD = PHASES = ("forward", "backward")

# What happens to an array where a split dim is not local (graph.Use); repeating one moves nothing.
KINDS = {
    **{"reduce": "all-reduce", "index": "all-reduce", "part": "all-to-all"},
    **{"cut": "all-gather", "join": "all-gather", "fold": "all-gather"},
}


@dataclass(frozen=True)
class Cause:
    """One reason for an array to move: the class `node` is split.

    place: the same for causes that one collective can serve, if all else about them is the same.
    kind: of the collective.
    phase: FORWARD or BACKWARD.
    axes: that split the class.
    value: the array.
    times: how often a step moves it.
    source: the user's line.
    """

    place: Hashable
    kind: str
    phase: str
    node: Node
    axes: Axes
    value: Value
    times: int
    source: str


@dataclass(frozen=True)
class Causes:
    """The causes of one plan.

    flow: where the values of the program come from.
    joined: keys of products whose parts come together.
    grouped: classes of kv heads in groups.
    routers: parameters that choose among experts on the axis `expert`: whole, each row meets them where it lies.
    """

    plan: Plan
    flow: Flow
    joined: frozenset[int]
    grouped: frozenset[Node]
    routers: Set[int]

    @classmethod
    def of(cls, plan: Plan) -> Causes:
        """Return the causes of a plan."""
        graph = plan.classes.graph
        joined = (use.value.key for use in graph.uses if use.kind == "join")
        grouped = frozenset(graph.used("repeat"))
        chosen_by = routers(plan.classes, plan.layouts.experts)
        return cls(plan, Flow.of(graph), frozenset(joined), grouped, chosen_by)

    def __iter__(self) -> Iterator[Cause]:
        """Yield the causes of products, then of other operations, in the order of the program."""
        yield from self._products()
        for use in self.plan.classes.graph.uses:
            yield from self._kv_heads(use) if use.kind == "repeat" else self._moves(use)

    def _products(self) -> Iterator[Cause]:
        """Yield what products sum, forward and backward.

        What is entered and left at the same place can share a collective. The place is what a block
        was entered from: blocks that start from the same values lie side by side, so that none
        waits for what another one sums.
        """
        entries: dict[Node, frozenset[int]] = defaultdict(frozenset)
        left: set[Node] = set()
        for dot in self.plan.classes.graph.dots:
            for operand, other, node in self._entries(dot):
                start = self.flow.sources.get(operand.key, frozenset({operand.key}))
                entries[node] = (frozenset() if node in left else entries[node]) | start
                left.discard(node)
                yield from self._enter(dot, operand, other, node)
            for node in self._split(dot.contracted):
                left.add(node)
                yield from self._leave(dot, node, entries[node] or dot.out.key)

    def _entries(self, dot: Dot) -> Iterator[tuple[Value, Value, Node]]:
        """Yield (activation, other operand, split class that the other one brings into a product).

        Not heads of keys and values in groups: they are summed with the heads that read them.
        """
        find = self.plan.classes.graph.find
        for operand, other in ((dot.lhs, dot.rhs), (dot.rhs, dot.lhs)):
            own = {find(n) for n in (*dot.contracted, *dot.batch, *operand.dims)} | self.grouped
            if operand.parameter is None and other.parameter not in self.routers:
                yield from ((operand, other, n) for n in self._split(other.dims) if n not in own)

    def _enter(self, dot: Dot, operand: Value, other: Value, node: Node) -> Iterator[Cause]:
        """Yield the sum of an operand's gradient over what the other brings."""
        sources = self.flow.sources.get(operand.key, frozenset({operand.key}))
        if self._meets_batch(node):
            made_there = self.plan.layouts.is_expert(dot.out)
            moved = operand if made_there else min(operand, other, key=lambda value: value.bytes)
            yield from self._exchange(dot, moved, node, ("all-gather", "reduce-scatter"))
        elif self.plan.layouts.position(operand) is not None:
            for kind, phase in zip(("all-gather", "reduce-scatter"), PHASES, strict=True):
                yield self._cause(sources, kind, phase, node, operand, dot)
        elif operand.key in self.flow.trained:
            kind = "reduce-scatter" if sources <= self.joined else "all-reduce"
            yield self._cause(sources, kind, BACKWARD, node, operand, dot)

    def _leave(self, dot: Dot, node: Node, place: Hashable) -> Iterator[Cause]:
        """Yield the sum of parts that a product over a split class is."""
        if self._meets_batch(node):
            yield from self._exchange(dot, dot.out, node, ("reduce-scatter", "all-gather"))
        elif self.plan.layouts.position(dot.out) is not None:
            for kind, phase in zip(("reduce-scatter", "all-gather"), PHASES, strict=True):
                yield self._cause(place, kind, phase, node, dot.out, dot)
        else:
            yield self._cause(place, "all-reduce", FORWARD, node, dot.out, dot)

    def _exchange(
        self, dot: Dot, value: Value, node: Node, kinds: tuple[str, str]
    ) -> Iterator[Cause]:
        """Yield how rows of the batch, which the axis splits too, meet the kernels of their experts.

        With kernels, `value` goes to all; between two activations, rows go where they are sent.
        """
        find = self.plan.classes.graph.find
        if dot.lhs.parameter is None and dot.rhs.parameter is None:
            holders = [v for v in (dot.out, dot.lhs, dot.rhs) if node in map(find, v.dims)]
            kinds, value = ("all-to-all", "all-to-all"), max(holders, key=lambda v: v.bytes)
        for kind, phase in zip(kinds, PHASES, strict=True):
            yield self._cause(value.key, kind, phase, node, value, dot)

    def _moves(self, use: Use) -> Iterator[Cause]:
        """Yield what another operation moves; parts that change places go back again.

        Where the batch has the axis, activations are split by their rows: only kernels move.
        """
        for node in self._split(use.nodes):
            if not (use.value.data and self._meets_batch(node)):
                for phase in PHASES if use.kind == "part" else (FORWARD,):
                    yield self._cause(id(use), KINDS[use.kind], phase, node, use.value, use)

    def _kv_heads(self, use: Use) -> Iterator[Cause]:
        """Yield the sums of gradients of heads of keys and values in fewer parts than their readers.

        Each copy of a head has a gradient of its own.
        """
        graph, axes, labels = self.plan.classes.graph, self.plan.axes, self.plan.classes.labels
        copies = math.prod(graph.sizes[n] for n in use.value.dims if n in graph.copies)
        dims = tuple(n for n in use.value.dims if n not in graph.copies)
        once = replace(use.value, dims=dims, bytes=use.value.bytes // copies)
        for node in map(graph.find, use.nodes):
            heads = (a for n in axes if labels.get(n) == "heads" for a in axes[n])
            over = tuple(a for a in dict.fromkeys(heads) if a not in axes.get(node, ()))
            if any(self.plan.mesh[axis] > 1 for axis in over):
                one = self._cause(id(use), "all-reduce", BACKWARD, node, once, use)
                yield replace(one, axes=over)

    def _cause(
        self, place: Hashable, kind: str, phase: str, node: Node, value: Value, at: Dot | Use
    ) -> Cause:
        """Return a cause at a product or another operation, over the axes of its class."""
        axes = self.plan.axes.get(node, ())
        return Cause(place, kind, phase, node, axes, value, at.times, at.source)

    def _split(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the classes of `nodes` that lie on more than one device."""
        mesh, axes = self.plan.mesh, self.plan.axes
        classes = dict.fromkeys(map(self.plan.classes.graph.find, nodes))
        return [node for node in classes if any(mesh[axis] > 1 for axis in axes.get(node, ()))]

    def _meets_batch(self, node: Node) -> bool:
        """Return whether an axis of a class splits the batch too."""
        return not set(self.plan.axes[node]).isdisjoint(self.plan.batch_axes)
