"""Which arrays of a program have to be told their layouts: as few as keep the compiler on track."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any
from jax.extend.core import Literal
from jax.sharding import PartitionSpec as P
from redco_new.sharding.activations import Layouts
from redco_new.sharding.graph import Body
from redco_new.sharding.graph import Value
from redco_new.sharding.divide import FSDP
from redco_new.sharding.divide import as_tuple
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from redco_new.sharding.classes import find_classes
from redco_new.sharding.classes import label
from redco_new.sharding.classes import label_rest
from redco_new.sharding.trace import Traced
from redco_new.sharding.trace import trace
from redco_new.sharding.rules import build_graph


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


if TYPE_CHECKING:
    from redco_new.sharding.plan import Plan


Forward = Callable[[Any, Any], Any]


def constrain(plan: Plan, forward: Forward) -> Forward:
    """A function that computes what `forward(params, batch)` does, on the mesh in place.

    forward: the function that was planned; its batch may have other sizes here. It is traced, so
    call the result inside jax.jit. Where an array must lie as the plan has it, it is told so.
    """

    def constrained(params: Any, batch: Any) -> Any:
        traced = trace(forward, params, batch)
        layouts = layouts_of(plan, traced)
        rewriter = Rewriter(Held(layouts, plan.partitions))
        jaxpr = rewriter.rewrite(layouts.classes.graph.bodies[0])
        leaves = jax.tree.leaves((params, batch))
        made = jaxpr_as_fun(traced.jaxpr.replace(jaxpr=jaxpr))(*leaves)
        return jax.tree.unflatten(traced.outputs, made)

    return constrained


def layouts_of(plan: Plan, traced: Traced) -> Layouts:
    """The layouts of the values of a program whose parameters lie as `plan` says."""
    classes = find_classes(build_graph(traced, plan.divider.parts), traced)
    label(classes)
    axes = {
        node: tuple(axis for axis in as_tuple(entry) if axis != FSDP)
        for dims, spec in zip(classes.parameter_dims, plan.partitions, strict=True)
        for node, entry in zip(dims, spec, strict=True)
    }
    split = {node: over for node, over in axes.items() if over}
    label_rest(classes, split.keys())
    return replace(plan.layouts, classes=classes, axes=split)


@dataclass(frozen=True)
class Rewriter:
    """Puts a constraint on each array that is to be held to its layout."""

    held: Held

    def rewrite(self, body: Body) -> Jaxpr:
        """The program of one pass, with constraints, also in the programs inside it."""
        outputs = self.held.outputs(body)
        eqns: list[Any] = []
        renamed: dict[Any, Any] = {}
        for eqn, inner in zip(body.jaxpr.eqns, body.inner, strict=True):
            if inner and not self.held.closed(eqn):
                eqns.append(self.enter(eqn, inner))
                continue
            invars = list(eqn.invars)
            for i, spec in self.held.operands(body, eqn).items():
                if invars[i] not in renamed:
                    eqns.append(constraint(invars[i].aval, spec).replace(invars=[invars[i]]))
                    renamed[invars[i]] = eqns[-1].outvars[0]
                invars[i] = renamed[invars[i]]
            after = {
                i: constraint(var.aval, outputs[var]).replace(outvars=[var])
                for i, var in enumerate(eqn.outvars)
                if var in outputs
            }
            outvars = [
                after[i].invars[0] if i in after else var for i, var in enumerate(eqn.outvars)
            ]
            eqns += [eqn.replace(invars=invars, outvars=outvars), *after.values()]
        return body.jaxpr.replace(eqns=eqns)

    def enter(self, eqn: Any, inner: tuple[Body, ...]) -> Any:
        """An equation that holds programs, with constraints in each of them."""
        left = list(inner)

        def new(old: Any) -> Any:
            if isinstance(old, tuple) and any(isinstance(one, ClosedJaxpr) for one in old):
                return tuple(map(new, old))
            if isinstance(old, ClosedJaxpr):
                return old.replace(jaxpr=new(old.jaxpr))
            if not isinstance(old, Jaxpr):
                return old
            body = next(body for body in left if body.jaxpr is old)
            left.remove(body)
            return self.rewrite(body)

        return eqn.replace(params={name: new(value) for name, value in eqn.params.items()})


def constraint(aval: Any, spec: P) -> Any:
    """An equation that holds an array of the shape of `aval` to a layout, on the mesh in place."""
    traced = jax.make_jaxpr(lambda x: jax.lax.with_sharding_constraint(x, spec))(aval)
    return traced.jaxpr.eqns[0]
