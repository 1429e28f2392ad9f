"""Which arrays of a program have to be told their layouts: as few as keep the compiler on track."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from jax.extend.core import Literal
from jax.sharding import PartitionSpec as P

from redco_new.sharding.activations import Layouts
from redco_new.sharding.dims import Body, Value
from redco_new.sharding.place import FSDP, as_tuple


@dataclass(frozen=True)
class Held:
    """The arrays of one program that are held to their layouts.

    partitions: the layouts of its parameters.

    The axis `fsdp` splits the rows of the batch, and a dim of each parameter. Where a product does
    not sum over that dim, both reach the same array, and the compiler may let go of the rows: it is
    told to keep them. With sequence parallelism, what enters and leaves the products with
    parameters is held. Parts of a sum are not held, but the sum: devices can add them up at once.
    """

    layouts: Layouts
    partitions: tuple[P, ...]

    def closed(self, eqn: Any) -> bool:
        """Whether the program in an equation is not the whole truth: it has its own gradient."""
        return eqn.primitive.name.startswith("custom_") or eqn.primitive.name == "shard_map"

    def operands(self, body: Body, eqn: Any) -> dict[int, P]:
        """The layouts of the operands of a product, where they are held."""
        if not self.layouts.sequence:
            return {}
        gathers, operands = self.layouts.gathers(body, eqn), self.layouts.multiplied(body, eqn)
        return {
            i: self.layouts.of(value, gathered=True)
            for i, value in operands.items()
            if i in gathers or self.layouts.is_split(value)
        }

    def outputs(self, body: Body) -> dict[Any, P]:
        """The layouts of the variables of one pass that are held."""
        readers = self.readers(body)
        found = {}
        for eqn, inner in zip(body.jaxpr.eqns, body.inner, strict=True):
            if inner and not self.closed(eqn):
                continue
            for var in eqn.outvars:
                if self.is_held(body, eqn, body.values[var]):
                    last = last_sum(var, readers)
                    found[last] = self.spec(body.values[last])
        return found

    def is_held(self, body: Body, eqn: Any, value: Value) -> bool:
        """Whether the compiler may lay out what an equation makes in a way that it must not."""
        operands = [v for atom in eqn.invars if (v := self.layouts.value(body, atom)) is not None]
        if not value.data or self.layouts.rows.isdisjoint(self.layouts.nodes(value)):
            return False
        kernels = [v for v in operands if v.parameter is not None]
        product = self.layouts.multiplied(body, eqn) or eqn.primitive.name == "gather"
        if self.layouts.sequence and product and kernels:
            return True
        return self.layouts.mesh[FSDP] > 1 and any(self.meet(v, value) for v in kernels)

    def meet(self, kernel: Value, value: Value) -> bool:
        """Whether a dim of a parameter that `fsdp` splits is one of the array's."""
        index, find = kernel.parameter, self.layouts.classes.graph.find
        shared = {find(n) for n in kernel.dims} & {find(n) for n in value.dims}
        dims = self.layouts.classes.parameter_dims[index]
        entries = zip(dims, self.partitions[index], strict=True)
        return any(FSDP in as_tuple(entry) for node, entry in entries if node in shared)

    def spec(self, value: Value) -> P:
        """The layout of a value that is held: only as far as the rows' axes go, without sequence."""
        spec = self.layouts.of(value)
        if self.layouts.sequence:
            return spec
        rows = self.layouts.batch_axes
        kept = [isinstance(e, str | tuple) and any(a in rows for a in as_tuple(e)) for e in spec]
        return P(*(e if keep else P.UNCONSTRAINED for e, keep in zip(spec, kept, strict=True)))

    @staticmethod
    def readers(body: Body) -> dict[Any, list[Any]]:
        """For each variable, the equations that read it; None for what the program returns."""
        found = defaultdict(list)
        uses = [(eqn, eqn.invars) for eqn in body.jaxpr.eqns] + [(None, body.jaxpr.outvars)]
        for eqn, atoms in uses:
            for atom in atoms:
                if not isinstance(atom, Literal):
                    found[atom].append(eqn)
        return found


def last_sum(var: Any, readers: dict[Any, list[Any]]) -> Any:
    """The sum that a variable ends in, if it is of no other use; else itself."""
    while [eqn is not None and eqn.primitive.name for eqn in readers[var]] == ["add"]:
        var = readers[var][0].outvars[0]
    return var
