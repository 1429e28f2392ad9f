"""A program that makes all products of an array at once: one all-reduce for its gradient, not one each.

Its gradient is a sum over them. In a call of their own that sum is made before anything else is
added, and the compiler sends it once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import jax
from jax._src import source_info_util
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from .jaxprs import bind, make_call, rewrite_inside

# What may lie between a parameter and its product: it can be computed before the first of them.
VIEWS = {"slice", "squeeze", "reshape", "transpose", "convert_element_type", "broadcast_in_dim"}


def join_products(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr that computes the same, all products of an array where the first of them is."""
    eqns = [rewrite_inside(eqn, join_products) for eqn in jaxpr.eqns]
    makers = {var: i for i, eqn in enumerate(eqns) for var in eqn.outvars}
    order: dict[int, tuple[int, ...]] = {
        i: (i,) for i in range(len(eqns))
    }  # place -> the equations that come there
    for products in _groups(eqns):
        views = {i: _views(eqns, makers, i, products[0]) for i in products}
        able = [i for i in products if views[i] is not None]
        moved = sorted({view for i in able for view in views[i] or ()})
        if len(able) > 1 and all(order[i] == (i,) for i in (*moved, *able)):
            order |= dict.fromkeys((*moved, *able), ())
            eqns[able[0]] = _together([eqns[i] for i in able])
            order[able[0]] = (*moved, able[0])
    return jaxpr.replace(eqns=[eqns[i] for place in sorted(order) for i in order[place]])


def _groups(eqns: Sequence[JaxprEqn]) -> Iterator[list[int]]:
    """Yield the places of the products that have an operand in common, the first one first."""
    groups: dict[Var, list[int]] = defaultdict(list)
    for i, eqn in enumerate(eqns):
        if eqn.primitive.name == "dot_general":
            for var in {atom for atom in eqn.invars if isinstance(atom, Var)}:
                groups[var].append(i)
    yield from groups.values()


def _views(
    eqns: Sequence[JaxprEqn], makers: Mapping[Var, int], product: int, first: int
) -> list[int] | None:
    """Return what must come before the product `first` for another one to be made there.

    None if that cannot be: it is made of something later, and not a view of a parameter.
    """
    needed, left = [], list(eqns[product].invars)
    while left:
        atom = left.pop()
        if isinstance(atom, Literal) or (i := makers.get(atom, -1)) < first:
            continue
        if eqns[i].primitive.name not in VIEWS:
            return None
        needed.append(i)
        left += eqns[i].invars
    return needed


def _together(products: Sequence[JaxprEqn]) -> JaxprEqn:
    """Return one equation that makes several products."""
    inputs = [*dict.fromkeys(a for eqn in products for a in eqn.invars if isinstance(a, Var))]

    def make_products(*arrays: jax.Array) -> list[jax.Array]:
        values = dict(zip(inputs, arrays, strict=True))
        outputs = []
        for eqn in products:
            info = eqn.source_info
            with source_info_util.user_context(info.traceback, name_stack=info.name_stack):
                operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
                outputs += bind(eqn, operands)
        return outputs

    outvars = [var for eqn in products for var in eqn.outvars]
    return make_call(make_products, inputs, outvars, products[0])
