"""Layouts of activations -> the same computation, some of its arrays held to their layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jax.sharding import PartitionSpec as P

from redco_new.sharding.activations import Layouts
from redco_new.sharding.classes import find_classes
from redco_new.sharding.dims import Body
from redco_new.sharding.held import Held
from redco_new.sharding.place import FSDP, as_tuple
from redco_new.sharding.roles import label, label_rest
from redco_new.sharding.trace import Traced, trace
from redco_new.sharding.walk import build_graph

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
    classes = find_classes(build_graph(traced, plan.divider), traced)
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
