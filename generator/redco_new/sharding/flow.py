"""Where the values of a traced program come from: what lies between one product and the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from jax.extend.core import Literal

from redco_new.sharding.dims import Graph, Value

SUMS = {"add", "add_any", "sub"}


@dataclass
class Flow:
    """What is known of each value, by its key; a key that is not in a table has nothing there.

    sources: the products, look-ups and results of loops that it is made of, with none between.
    trained: values that depend on a parameter.
    sums: the products that it is the sum of, and nothing else that depends on the batch.
    """

    sources: dict[int, frozenset[int]] = field(default_factory=dict)
    trained: set[int] = field(default_factory=set)
    sums: dict[int, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Flow:
        flow = cls()
        products = {dot.out.key for dot in graph.dots}
        for body, eqn, inner in graph.bodies[0].equations():
            inputs = [body.values[atom] for atom in eqn.invars if not isinstance(atom, Literal)]
            for value in (body.values[var] for var in eqn.outvars):
                if value.key not in flow.sources:
                    starts = value.key in products or inner or eqn.primitive.name == "gather"
                    flow.add(value, inputs, starts=bool(starts), product=value.key in products)
                if eqn.primitive.name in SUMS:
                    flow.add_sum(value, inputs)
        return flow

    def add(self, value: Value, inputs: list[Value], *, starts: bool, product: bool) -> None:
        """Record what a new value is made of."""
        data = [v for v in inputs if v.data]
        behind = (self.sources.get(v.key, frozenset({v.key})) for v in data)
        own = frozenset({value.key})
        self.sources[value.key] = own if starts or not data else frozenset().union(*behind)
        if any(v.parameter is not None or v.key in self.trained for v in inputs):
            self.trained.add(value.key)
        if product:
            self.sums[value.key] = own

    def add_sum(self, value: Value, inputs: list[Value]) -> None:
        """Record what a value is the sum of, if that is products and constants."""
        parts = [self.sums.get(v.key) for v in inputs if v.data]
        if parts and None not in parts:
            self.sums[value.key] = frozenset().union(*parts)

    def summed(self, keys: set[int]) -> int:
        """Arrays that are left of some products, once those that are added up are one."""
        left: dict[int, frozenset[int]] = {key: frozenset({key}) for key in keys}
        for sums in self.sums.values():
            together = sums & keys
            if len(together) > 1:
                group = frozenset().union(*(left[key] for key in together))
                left.update(dict.fromkeys(group, group))
        return len(set(left.values()))
