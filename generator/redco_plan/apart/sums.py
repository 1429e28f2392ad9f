"""A program that adds products up before all else: one all-reduce for the experts of a loop, not one each.

A product over a dim that devices share is a sum that they have yet to make. With a gate `g` for each
row, `g * (h @ w)` is `(g * h) @ w`: so computed, the products of `g0 * (h0 @ w0) + g1 * (h1 @ w1)` are
added up where they are, and the compiler sends their sum.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.interpreters.partial_eval import dce_jaxpr

from .jaxprs import bind, dtype_of, make_call, rewrite_inside, shape_of
from .rows import Atom, Readers, find_readers


@dataclass(frozen=True)
class Term:
    """One of the arrays that are added up: `value`, multiplied with `scales`.

    product: the equation of which it is the output, if that is a product.
    """

    value: Atom
    scales: tuple[Atom, ...] = ()
    product: JaxprEqn | None = None


def add_products_first(jaxpr: Jaxpr) -> Jaxpr:
    """Return a jaxpr that computes the same, the products of a sum with scaled ones added up first.

    The same jaxpr if it has no such sum, nor has one that it holds.
    """
    eqns = [rewrite_inside(eqn, add_products_first) for eqn in jaxpr.eqns]
    sums = Sums({var: eqn for eqn in eqns for var in eqn.outvars}, find_readers(jaxpr))
    new = [_sum(eqn, terms) if (terms := sums.terms(eqn)) else eqn for eqn in eqns]
    if all(map(operator.is_, new, jaxpr.eqns)):
        return jaxpr
    # The products and sums that it had are of no use now.
    return dce_jaxpr(jaxpr.replace(eqns=new), [True] * len(jaxpr.outvars), instantiate=True)[0]


@dataclass(frozen=True)
class Sums:
    """The sums of one jaxpr.

    makers: of each variable, the equation that makes it.
    """

    makers: Mapping[Var, JaxprEqn]
    readers: Readers

    def terms(self, eqn: JaxprEqn) -> list[Term]:
        """Return the terms of a sum that is no part of one, if it has scaled products; else []."""
        if eqn.primitive.name != "add" or self._is_added(eqn.outvars[0]):
            return []
        terms = self._both(eqn)
        products = [term for term in terms if term.product]
        return terms if len(products) > 1 and any(term.scales for term in products) else []

    def _is_added(self, var: Var) -> bool:
        """Return whether an array is of no use but in a sum."""
        uses = self.readers.get(var, [])
        return len(uses) == 1 and uses[0] is not None and uses[0].primitive.name == "add"

    def _both(self, eqn: JaxprEqn) -> list[Term]:
        """Return the terms of both sides of a sum."""
        shape = shape_of(eqn.outvars[0])
        return [term for atom in eqn.invars for term in self._expand(atom, shape)]

    def _expand(self, atom: Atom, shape: tuple[int, ...]) -> list[Term]:
        """Return the terms of an array of a shape that is of no other use; or itself, as one."""
        eqn = None if isinstance(atom, Literal) else self.makers.get(atom)
        if eqn is None or shape_of(atom) != shape or len(self.readers.get(eqn.outvars[0], [])) != 1:
            return [Term(atom)]
        if eqn.primitive.name == "dot_general":
            return [Term(atom, product=eqn)]
        if eqn.primitive.name == "add":
            return self._both(eqn)
        if eqn.primitive.name == "mul":
            for value, scale in (eqn.invars, eqn.invars[::-1]):
                terms = [_scaled(term, scale) for term in self._expand(value, shape)]
                if any(term.product for term in terms) and all(map(_can_be_scaled, terms)):
                    return terms
        if eqn.primitive.name == "convert_element_type" and _is_float(eqn.invars[0]):
            return self._expand(eqn.invars[0], shape)
        return [Term(atom)]


def _is_float(atom: Atom) -> bool:
    """Return whether an array is of floating-point numbers."""
    return jnp.issubdtype(dtype_of(atom), jnp.floating)


def _scaled(term: Term, scale: Atom) -> Term:
    """Return a term multiplied with one more scale."""
    return replace(term, scales=(*term.scales, scale))


def _can_be_scaled(term: Term) -> bool:
    """Return whether the scales of a product can be those of one of its operands."""
    return term.product is None or bool(_sides(term))


def _sides(term: Term) -> list[int]:
    """Return the operands of a product that have all dims along which its scales differ."""
    assert term.product
    places = [_places(term.product, side) for side in (0, 1)]
    used = {i for scale in term.scales for i, size in enumerate(shape_of(scale)) if size > 1}
    return [side for side in (0, 1) if used <= {*places[side]}]


def _places(product: JaxprEqn, side: int) -> list[int | None]:
    """Return for each dim of an operand its place in the product; None if it is summed over."""
    contracted, batch = product.params["dimension_numbers"]
    ranks = [len(shape_of(atom)) for atom in product.invars]
    free = [d for d in range(ranks[side]) if d not in (*contracted[side], *batch[side])]
    offset = len(batch[0]) + (ranks[0] - len(batch[0]) - len(contracted[0]) if side else 0)
    numbers = {dim: i for i, dim in enumerate(batch[side])}
    numbers |= {dim: offset + i for i, dim in enumerate(free)}
    return [numbers.get(dim) for dim in range(ranks[side])]


def _sum(eqn: JaxprEqn, terms: Sequence[Term]) -> JaxprEqn:
    """Return an equation that adds terms up, the products first."""
    ordered = sorted(terms, key=lambda term: term.product is None)
    needed = [atom for term in ordered for atom in _atoms(term)]
    inputs = [*dict.fromkeys(atom for atom in needed if isinstance(atom, Var))]
    dtype = dtype_of(eqn.outvars[0])

    def add_up(*arrays: jax.Array) -> jax.Array:
        values = dict(zip(inputs, arrays, strict=True))

        def read(atom: Atom) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        return functools.reduce(operator.add, (_compute(term, read, dtype) for term in ordered))

    return make_call(add_up, inputs, eqn.outvars, eqn)


def _atoms(term: Term) -> list[Atom]:
    """Return what a term is computed of."""
    return [*term.scales, *(term.product.invars if term.product else [term.value])]


def _compute(term: Term, read: Any, dtype: Any) -> jax.Array:
    """Return a term: a product of an operand that is scaled, or an array that is."""
    scales = [jnp.asarray(read(scale)) for scale in term.scales]
    if term.product is None:
        return functools.reduce(operator.mul, scales, jnp.asarray(read(term.value), dtype))
    info = term.product.source_info
    with source_info_util.user_context(info.traceback, name_stack=info.name_stack):
        side = _sides(term)[0]
        operands = [read(atom) for atom in term.product.invars]
        for scale in scales:
            factor = _as_operand(scale, _places(term.product, side))
            operands[side] = (operands[side] * factor).astype(operands[side].dtype)
        return bind(term.product, operands, preferred_element_type=dtype)[0]


def _as_operand(scale: jax.Array, places: Sequence[int | None]) -> jax.Array:
    """Return a scale of a product with the dims of an operand, whose places in the product these are."""
    if not scale.ndim:
        return scale
    own = [place for place in places if place is not None]
    others = [i for i in range(scale.ndim) if i not in own]
    order = [sorted(own).index(place) for place in own]
    array = jnp.transpose(jnp.squeeze(scale, others), order)
    return jnp.expand_dims(array, [i for i, place in enumerate(places) if place is None])
