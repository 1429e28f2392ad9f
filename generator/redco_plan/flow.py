"""Where the values of a program come from: what lies between one product and the next."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from redco_plan.graph import Graph, Value

# What devices can add up before they send it: a sum of products moves as one array.
SUMS = {"add", "add_any", "sub"}


@dataclass
class Flow:
    """The flow of one program.

    By the keys of values; one that is not in a table has nothing there.

    sources: the products, look-ups and results of loops that it is made of, with none between.
    trained: values that depend on a parameter.
    sums: the products that it is the sum of, and nothing else that depends on the batch.
    """

    sources: dict[int, frozenset[int]] = field(default_factory=dict)
    trained: set[int] = field(default_factory=set)
    sums: dict[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Flow:
        """Return the flow of a program."""
        flow = cls()
        products = {dot.out.key for dot in graph.dots}
        for body, eqn, inner in graph.bodies[0].equations():
            inputs = [v for atom in eqn.invars if (v := body.value(atom)) is not None]
            for value in (body.values[var] for var in eqn.outvars):
                if value.key not in flow.sources:
                    starts = value.key in products or inner or eqn.primitive.name == "gather"
                    flow._add(value, inputs, starts=bool(starts), product=value.key in products)
                if eqn.primitive.name in SUMS:
                    flow._add_sum(value, inputs)
        return flow

    def _add(self, value: Value, inputs: list[Value], *, starts: bool, product: bool) -> None:
        """Record what a new value is made of."""
        data = [v for v in inputs if v.data]
        behind = (self.sources.get(v.key, frozenset({v.key})) for v in data)
        own = frozenset({value.key})
        self.sources[value.key] = own if starts or not data else frozenset().union(*behind)
        if any(v.parameter is not None or v.key in self.trained for v in inputs):
            self.trained.add(value.key)
        if product:
            self.sums[value.key] = own

    def _add_sum(self, value: Value, inputs: list[Value]) -> None:
        """Record what a value is the sum of, if that is products and constants."""
        keys = [v.key for v in inputs if v.data]
        if keys and all(key in self.sums for key in keys):
            self.sums[value.key] = frozenset().union(*(self.sums[key] for key in keys))

    def groups(self, keys: Set[int]) -> set[frozenset[int]]:
        """Return products in groups: those of a group are added up, and of no other use."""
        groups: dict[int, frozenset[int]] = {key: frozenset({key}) for key in keys}
        for sums in self.sums.values():
            together = sums & keys
            if len(together) > 1:
                group = frozenset().union(*(groups[key] for key in together))
                groups.update(dict.fromkeys(group, group))
        return {*groups.values()}
