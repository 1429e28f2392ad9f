"""Where the values of a program come from: what lies between one product and the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property

from redco_plan.graph import Graph, Value

# What devices can add up before they send it: a sum of products moves as one array.
SUMS = {"add", "add_any", "sub"}


@dataclass
class Flow:
    """The flow of one program, by the keys of its values.

    made: each value, with those of the batch that it is made of; none where a product, a look-up or a loop makes it.
    trained: values that depend on a parameter.
    sums: each product, with nothing, and each sum of products and constants, with what it adds up.
    """

    made: dict[int, tuple[int, ...]] = field(default_factory=dict)
    trained: set[int] = field(default_factory=set)
    sums: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    @classmethod
    def of(cls, graph: Graph) -> Flow:
        """Return the flow of a program."""
        flow, summed = cls(), set()
        products = {dot.out.key for dot in graph.dots}
        for body, eqn, inner in graph.bodies[0].equations():
            inputs = [v for atom in eqn.invars if (v := body.value(atom)) is not None]
            data = tuple(v.key for v in inputs if v.data)
            for value in (body.values[var] for var in eqn.outvars):
                key, product = value.key, value.key in products
                if key not in flow.made:
                    starts = product or inner or eqn.primitive.name == "gather"
                    flow.made[key] = () if starts else data
                    flow._train(value, inputs)
                    if product:
                        flow.sums.append((key, ()))
                        summed.add(key)
                if eqn.primitive.name in SUMS and data and summed.issuperset(data):
                    flow.sums.append((key, data))
                    summed.add(key)
        return flow

    def _train(self, value: Value, inputs: list[Value]) -> None:
        """Record whether a new value depends on a parameter."""
        if any(v.parameter is not None or v.key in self.trained for v in inputs):
            self.trained.add(value.key)

    @cached_property
    def sources(self) -> dict[int, frozenset[int]]:
        """The products, look-ups and results of loops that a value is made of, with none between; itself where that is one."""
        sources: dict[int, frozenset[int]] = {}
        for key, data in self.made.items():
            behind = (sources.get(one, frozenset({one})) for one in data)
            sources[key] = frozenset().union(*behind) if data else frozenset({key})
        return sources

    def groups(self, keys: Set[int]) -> set[frozenset[int]]:
        """Return products in groups: those of a group are added up, and of no other use."""
        parents = {key: key for key in keys}

        def root(key: int) -> int:
            while parents[key] != key:
                parents[key] = key = parents[parents[key]]
            return key

        inside: dict[int, int] = {}  # one product of each sum: all of them are in one group
        for key, parts in self.sums:
            of = (
                [inside[part] for part in parts if part in inside]
                if parts
                else [key] * (key in keys)
            )
            for other in of[1:]:
                parents[root(other)] = root(of[0])
            inside.update({key: of[0]} if of else {})
        groups: dict[int, set[int]] = defaultdict(set)
        for key in keys:
            groups[root(key)].add(key)
        return {frozenset(group) for group in groups.values()}
