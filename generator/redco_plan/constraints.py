"""Layouts of activations -> the same computation, with constraints on some of its arrays.

On as few as keep the compiler on track.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Var, jaxpr_as_fun

from jax.sharding import PartitionSpec as P

from redco_plan.activations import Layouts
from redco_plan.apart.jaxprs import rewrite_jaxprs
from redco_plan.apart.rows import constraint, find_readers, last_sum
from redco_plan.classes import find_classes, label_by_layout
from redco_plan.placement import FSDP, axes_of_entry
from redco_plan.graph import Atom, Body, Value
from redco_plan.plan import Plan
from redco_plan.rules import build_graph
from redco_plan.trace import Forward, Program, Tree, trace


def constrain(plan: Plan, forward: Forward) -> Forward:
    """Return a function that computes what `forward(params, batch)` does, on the mesh in place.

    forward: the function that was planned; its batch may have other sizes here. It is traced, so
        call the result inside jax.jit.

    Where an array must lie as the plan has it, the function says so to the compiler.
    """

    def constrained(params: Tree, batch: Tree) -> Tree:
        program = trace(forward, params, batch)
        layouts = _layouts_of(plan, program)
        rewriter = Rewriter(Constraints(layouts, plan.partitions))
        jaxpr = rewriter.rewrite(layouts.classes.graph.bodies[0])
        leaves = jax.tree.leaves((params, batch))
        outputs = jaxpr_as_fun(program.jaxpr.replace(jaxpr=jaxpr))(*leaves)
        return jax.tree.unflatten(program.outputs, outputs)

    return constrained


def row_constraints(plan: Plan) -> dict[str, P]:
    """Return the layout of what is computed with a parameter, where the compiler must be told of it.

    By the path of the model's own parameter, however it is stored. One that makes arrays of several
    layouts is left out. So is the size of `fsdp`: a mesh may have another one than the plan.
    """
    specs: dict[str, set[P]] = defaultdict(set)
    for index, spec in _constraints_of(plan).by_parameter():
        specs[_whole_path(plan, index)].add(spec)
    return {path: of.pop() for path, of in sorted(specs.items()) if len(of) == 1}


@dataclass(frozen=True)
class LayerProduct:
    """What layers in a loop compute with a parameter.

    layout: as the plan has it, however large `fsdp` is.
    bytes: of one layer, of all rows and all parts of a parameter; 0 where the layer hands it on, and the loop has it anyway.
    """

    layout: P
    bytes: int


def layer_products(plan: Plan) -> dict[str, LayerProduct]:
    """Return the products with parameters in loops over layers, by the path of the model's own parameter.

    One that makes arrays of several layouts is left out.
    """
    constraints, found = _constraints_of(plan), defaultdict[str, list[LayerProduct]](list)
    for kernel, made, handed_on in constraints.products(plan.classes.graph.bodies[0]):
        index = kernel.parameter or 0
        if len(kernel.dims) < len(plan.parameters[index].shape):
            size = 0 if handed_on else made.bytes
            found[_whole_path(plan, index)].append(LayerProduct(constraints.layouts.of(made), size))
    return {
        path: LayerProduct(of[0].layout, sum(one.bytes for one in of))
        for path, of in sorted(found.items())
        if len({one.layout for one in of}) == 1
    }


def _constraints_of(plan: Plan) -> Constraints:
    """Return those of a plan, as of a mesh where `fsdp` splits."""
    mesh = plan.mesh | {FSDP: max(plan.mesh[FSDP], 2)}
    return Constraints(replace(plan.layouts, mesh=mesh), plan.partitions)


def _whole_path(plan: Plan, index: int) -> str:
    """Return the path of the model's own parameter that a stored one is, or is a part of."""
    path = plan.parameters[index].path
    whole = path.rpartition("/")[0]
    return whole if whole in plan.apart else path


def _layouts_of(plan: Plan, program: Program) -> Layouts:
    """Return the layouts of the values of a program whose parameters lie as `plan` says."""
    classes = find_classes(build_graph(program, plan.divider.parts), program, {})
    axes = {
        node: tuple(axis for axis in axes_of_entry(entry) if axis != FSDP)
        for dims, spec in zip(classes.parameter_dims, plan.partitions, strict=True)
        for node, entry in zip(dims, spec, strict=True)
    }
    split = {node: over for node, over in axes.items() if over}
    label_by_layout(classes, split.keys())
    return replace(plan.layouts, classes=classes, axes=split)


@dataclass(frozen=True)
class Constraints:
    """The arrays of one program whose layouts are constrained.

    partitions: the layouts of its parameters.

    The axis `fsdp` splits the rows of the batch, and a dim of each parameter. Where a product does
    not sum over that dim, both reach the same array, and the compiler may let go of the rows: a
    constraint keeps them. With sequence parallelism, what enters and leaves the products with
    parameters has one. Parts of a sum have none, but the sum: devices can add them up at once.
    """

    layouts: Layouts
    partitions: tuple[P, ...]

    def operands(self, body: Body, eqn: JaxprEqn) -> dict[int, P]:
        """Return the layouts of the operands of a product that are constrained."""
        if not self.layouts.sequence:
            return {}
        gathers, operands = self.layouts.gathers(body, eqn), self.layouts.multiplied(body, eqn)
        return {
            i: self.layouts.of(value, gathered=True)
            for i, value in operands.items()
            if i in gathers or self.layouts.is_split(value)
        }

    def outputs(self, body: Body) -> dict[Var, P]:
        """Return the layouts of the variables of one pass that are constrained."""
        return {var: self._spec(body.values[var]) for var, _ in self._results(body)}

    def by_parameter(self) -> Iterator[tuple[int, P]]:
        """Yield (index, layout) for each variable with a constraint, of the parameters that make it."""
        equations = self.layouts.classes.graph.bodies[0].equations()
        for body in {id(body): body for body, _, _ in equations}.values():
            for var, eqn in self._results(body):
                value, spec = body.values[eqn.outvars[0]], self._spec(body.values[var])
                for kernel in filter(None, map(body.value, eqn.invars)):
                    if kernel.parameter is not None and self._meet(kernel, kernel.parameter, value):
                        yield kernel.parameter, spec

    def products(
        self, body: Body, handed_on: Set[Atom] = frozenset()
    ) -> Iterator[tuple[Value, Value, bool]]:
        """Yield (parameter, product or the sum that it ends in, whether a layer hands that on) of each product of data.

        handed_on: what the layer that `body` is in hands on, of its variables
        """
        readers = find_readers(body.jaxpr)
        for eqn, inner in zip(body.jaxpr.eqns, body.inner, strict=True):
            for one in inner:
                pairs = zip(one.jaxpr.outvars, eqn.outvars, strict=False)
                last = {i for i, outer in pairs if last_sum(outer, readers) in handed_on}
                loop = eqn.primitive.name == "scan"
                yield from self.products(one, {*one.jaxpr.outvars} if loop else last)
            if not inner and self.layouts.multiplied(body, eqn) and len(eqn.outvars) == 1:
                end = last_sum(eqn.outvars[0], readers)
                for kernel in filter(None, map(body.value, eqn.invars)):
                    if kernel.parameter is not None and body.values[end].data:
                        yield kernel, body.values[end], end in handed_on

    def _results(self, body: Body) -> Iterator[tuple[Var, JaxprEqn]]:
        """Yield (variable to constrain, the equation that it is the output of, or the sum of)."""
        readers = find_readers(body.jaxpr)
        for eqn, inner in zip(body.jaxpr.eqns, body.inner, strict=True):
            if not inner or _has_own_gradient(eqn):
                for var in eqn.outvars:
                    if self._applies(body, eqn, body.values[var]):
                        yield last_sum(var, readers), eqn

    def _applies(self, body: Body, eqn: JaxprEqn, value: Value) -> bool:
        """Return whether the compiler may lay out `value`, of `eqn`, in a way that it must not."""
        operands = [v for atom in eqn.invars if (v := body.value(atom)) is not None]
        if not value.data or self.layouts.rows.isdisjoint(self.layouts.nodes(value)):
            return False
        kernels = [(v, v.parameter) for v in operands if v.parameter is not None]
        product = self.layouts.multiplied(body, eqn) or eqn.primitive.name == "gather"
        if self.layouts.sequence and product and kernels:
            return True
        return self.layouts.mesh[FSDP] > 1 and any(self._meet(v, i, value) for v, i in kernels)

    def _meet(self, kernel: Value, index: int, value: Value) -> bool:
        """Return whether a dim of parameter `index` that `fsdp` splits is one of a value's."""
        find = self.layouts.classes.graph.find
        shared = {find(n) for n in kernel.dims} & {find(n) for n in value.dims}
        dims = self.layouts.classes.parameter_dims[index]
        entries = zip(dims, self.partitions[index], strict=True)
        return any(FSDP in axes_of_entry(entry) for node, entry in entries if node in shared)

    def _spec(self, value: Value) -> P:
        """Return the constraint on a value: without sequence, only as far as the rows' axes go."""
        spec = self.layouts.of(value)
        if self.layouts.sequence:
            return spec
        rows = {*self.layouts.batch_axes}
        return P(*(entry if _over(entry, rows) else P.UNCONSTRAINED for entry in spec))


def _has_own_gradient(eqn: JaxprEqn) -> bool:
    """Return whether the jaxpr in an equation is not the whole truth: its gradient is another's."""
    return eqn.primitive.name.startswith("custom_") or eqn.primitive.name == "shard_map"


def _over(entry: Any, axes: set[str]) -> bool:
    """Return whether an entry of a PartitionSpec names one of some axes; UNCONSTRAINED does not."""
    return isinstance(entry, str | tuple) and not axes.isdisjoint(axes_of_entry(entry))


@dataclass(frozen=True)
class Rewriter:
    """The pass that writes constraints into a program."""

    constraints: Constraints

    def rewrite(self, body: Body) -> Jaxpr:
        """Return the jaxpr of one pass, with constraints, also in the jaxprs inside it."""
        outputs = self.constraints.outputs(body)
        eqns: list[JaxprEqn] = []
        renamed: dict[Atom, Var] = {}
        for eqn, inner in zip(body.jaxpr.eqns, body.inner, strict=True):
            if inner and not _has_own_gradient(eqn):
                eqns.append(self._enter(eqn, inner))
                continue
            invars = list(eqn.invars)
            for i, spec in self.constraints.operands(body, eqn).items():
                if invars[i] not in renamed:
                    eqns.append(constraint(invars[i], spec).replace(invars=[invars[i]]))
                    renamed[invars[i]] = eqns[-1].outvars[0]
                invars[i] = renamed[invars[i]]
            after = {
                i: constraint(var, outputs[var]).replace(outvars=[var])
                for i, var in enumerate(eqn.outvars)
                if var in outputs
            }
            outvars = [
                after[i].invars[0] if i in after else var for i, var in enumerate(eqn.outvars)
            ]
            eqns += [eqn.replace(invars=invars, outvars=outvars), *after.values()]
        return body.jaxpr.replace(eqns=eqns)

    def _enter(self, eqn: JaxprEqn, inner: tuple[Body, ...]) -> JaxprEqn:
        """Return an equation that holds jaxprs, with constraints in each of them."""
        left = list(inner)

        def new(old: Jaxpr) -> Jaxpr:
            body = next(body for body in left if body.jaxpr is old)
            left.remove(body)
            return self.rewrite(body)

        return eqn.replace(
            params={name: rewrite_jaxprs(value, new) for name, value in eqn.params.items()}
        )
