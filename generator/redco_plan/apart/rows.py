"""A program with constraints on what it computes with some parameters: the rows of the batch stay.

Devices that split the rows may split a dim of a parameter too. Where what is computed with it has
both dims, the compiler may let go of the rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.sharding import PartitionSpec as P

from .jaxprs import rewrite_jaxprs, scan_sizes

Atom = Var | Literal
Readers = Mapping[Var, list[JaxprEqn | None]]  # None: the jaxpr returns the variable


class Kernel(NamedTuple):
    """A parameter, or what is made of it: its path, and the layout of what is computed with it."""

    path: str
    spec: P


# What is known of a value: BATCH, that it depends on the batch; a Kernel; None otherwise.
BATCH = "batch"
Mark = str | Kernel | None


def constrain_rows(jaxpr: Jaxpr, marks: Sequence[Mark]) -> tuple[Jaxpr, list[Mark]]:
    """Return a jaxpr that constrains what it computes of the batch and of parameters, and marks.

    Each such array has the path of its parameter as its name (jax.ad_checkpoint.checkpoint_name).
    marks: of its inputs; those that are returned are of its outputs.
    """
    of: dict[Atom, Mark] = dict(zip(jaxpr.invars, marks, strict=True))
    readers, eqns = find_readers(jaxpr), []
    kernels: dict[Var, Kernel] = {}
    for eqn in jaxpr.eqns:
        inputs = [None if isinstance(atom, Literal) else of.get(atom) for atom in eqn.invars]
        products = _products(eqn, inputs)
        entered = None if any(products) else _enter(eqn, inputs)
        new, outputs = entered or (eqn, [_mark(inputs)] * len(eqn.outvars))
        of.update(zip(eqn.outvars, outputs, strict=True))
        eqns.append(new)
        pairs = zip(eqn.outvars, products, strict=True)
        kernels |= {last_sum(var, readers): kernel for var, kernel in pairs if kernel}
    constrained = [part for eqn in eqns for part in _with_constraints(eqn, kernels)]
    returned = [None if isinstance(a, Literal) else of.get(a) for a in jaxpr.outvars]
    return jaxpr.replace(eqns=constrained), returned


def find_readers(jaxpr: Jaxpr) -> Readers:
    """Return for each variable the equations that read it; None for what the jaxpr returns."""
    readers: dict[Var, list[JaxprEqn | None]] = defaultdict(list)
    uses: list[tuple[JaxprEqn | None, list[Atom]]] = [(eqn, eqn.invars) for eqn in jaxpr.eqns]
    uses.append((None, jaxpr.outvars))
    for eqn, atoms in uses:
        for atom in atoms:
            if not isinstance(atom, Literal):
                readers[atom].append(eqn)
    return readers


def last_sum(var: Var, readers: Readers) -> Var:
    """Return the sum that a variable ends in, if it is of no other use; else itself.

    Devices can add the parts of a sum up at once, so that its parts had better have no constraint.
    """
    while len(eqns := readers.get(var, [])) == 1:
        (eqn,) = eqns
        if eqn is None or eqn.primitive.name != "add":
            break
        var = eqn.outvars[0]
    return var


def constraint(atom: Atom, spec: P) -> JaxprEqn:
    """Return an equation that constrains an array like `atom` to a layout, on the mesh in place."""
    jaxpr = jax.make_jaxpr(lambda x: jax.lax.with_sharding_constraint(x, spec))(atom.aval)
    return jaxpr.jaxpr.eqns[0]


def _mark(inputs: Sequence[Mark]) -> Mark:
    """Return the mark of what is made of inputs with these marks."""
    return BATCH if BATCH in inputs else next((mark for mark in inputs if mark is not None), None)


def _products(eqn: JaxprEqn, marks: Sequence[Mark]) -> list[Kernel | None]:
    """Return the parameter that each output of an equation is made of, and of the batch; of a call of products, or of their sum, too."""
    if eqn.params.get("name") in CALLS and "jaxpr" in eqn.params:
        body = eqn.params["jaxpr"].jaxpr
        of, made = dict[Atom, Mark](zip(body.invars, marks, strict=True)), dict[Var, Any]()
        for one in body.eqns:
            atoms = [atom for atom in one.invars if not isinstance(atom, Literal)]
            inputs = [of.get(atom) for atom in atoms]
            summed = next((made[atom] for atom in atoms if made.get(atom)), None)
            made |= {
                v: x or summed for v, x in zip(one.outvars, _products(one, inputs), strict=True)
            }
            of |= dict.fromkeys(one.outvars, _mark(inputs))
        return [made.get(var) for var in body.outvars]
    kernel = next((mark for mark in marks if isinstance(mark, Kernel)), None)
    # What a shard_map gives lies as that says, in which it may have a dim for devices, too.
    is_made = BATCH in marks and eqn.primitive.name not in {*INNER, "shard_map"}
    return [kernel if is_made else None] * len(eqn.outvars)


def _with_constraints(eqn: JaxprEqn, kernels: Mapping[Var, Kernel]) -> Iterator[JaxprEqn]:
    """Yield an equation, and a name and a constraint of each of its outputs whose kernel has a spec of its rank."""
    outvars, after = list(eqn.outvars), []
    for i, var in enumerate(eqn.outvars):
        kernel, aval = kernels.get(var), cast(ShapedArray, var.aval)
        if kernel is not None and len(kernel.spec) == len(aval.shape):
            added = constraint(var, _fitting(kernel.spec, aval.shape))
            named = _name(aval, kernel.path).replace(outvars=[cast(Var, added.invars[0])])
            outvars[i] = cast(Var, named.invars[0])
            after += [named, added.replace(outvars=[var])]
    yield eqn.replace(outvars=outvars) if after else eqn
    yield from after


def _name(aval: ShapedArray, name: str) -> JaxprEqn:
    """Return an equation that names an array of a shape."""
    return jax.make_jaxpr(lambda x: checkpoint_name(x, name))(aval).jaxpr.eqns[0]


def _fitting(spec: P, shape: tuple[int, ...]) -> P:
    """Return a spec without axes that a shard_map runs over, and UNCONSTRAINED where its axes do not divide the dim."""
    mesh = jax.sharding.get_abstract_mesh()

    def own(size: int, entry: Any) -> Any:
        axes = (entry,) if isinstance(entry, str) else entry if isinstance(entry, tuple) else ()
        free = tuple(axis for axis in axes if axis not in mesh.manual_axes)
        divides = size % math.prod(mesh.shape[axis] for axis in free) == 0
        return (free or None if axes else entry) if divides else P.UNCONSTRAINED

    return P(*(own(*pair) for pair in zip(shape, spec, strict=True)))


def _enter(eqn: JaxprEqn, marks: list[Mark]) -> tuple[JaxprEqn, list[Mark]] | None:
    """Return an equation with constraints in the jaxprs that it holds, and marks of its outputs.

    None where it has no use for parameters, or its gradient is not that of a jaxpr that it holds.
    """
    if eqn.primitive.name not in INNER or not any(isinstance(mark, Kernel) for mark in marks):
        return None
    inputs = INNER[eqn.primitive.name](eqn, marks)
    outputs: list[Mark] = []

    def new(old: Jaxpr) -> Jaxpr:
        jaxpr, outputs[:] = constrain_rows(old, inputs)
        return jaxpr

    name = next(name for name in BODIES if name in eqn.params)
    return eqn.replace(params={**eqn.params, name: rewrite_jaxprs(eqn.params[name], new)}), outputs


def _of_call(eqn: JaxprEqn, marks: list[Mark]) -> list[Mark]:
    """Return the marks of the inputs of what is called."""
    return marks


def _of_scan(eqn: JaxprEqn, marks: list[Mark]) -> list[Mark]:
    """Return the marks of the inputs of one step: any of them may end up in the carry."""
    consts, carries = scan_sizes(eqn)
    return [*marks[:consts], *[_mark(marks)] * carries, *marks[consts + carries :]]


def _of_while(eqn: JaxprEqn, marks: list[Mark]) -> list[Mark]:
    """Return the marks of the inputs of one step: any of them may end up in the carry."""
    start = eqn.params["cond_nconsts"]
    end = start + eqn.params["body_nconsts"]
    return [*marks[start:end], *[_mark(marks)] * (len(marks) - end)]


def _of_cond(eqn: JaxprEqn, marks: list[Mark]) -> list[Mark]:
    """Return the marks of the inputs of each branch."""
    return marks[1:]


# What holds jaxprs -> the marks of the inputs of these; where an equation has them.
INNER: dict[str, Callable[[JaxprEqn, list[Mark]], list[Mark]]] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "remat", "remat2", "checkpoint"), _of_call),
    "scan": _of_scan,
    "while": _of_while,
    "cond": _of_cond,
}
CALLS = ("make_products", "products", "add_up")  # of entries.py, parts.py and sums.py
BODIES = ("jaxpr", "call_jaxpr", "body_jaxpr", "branches")
