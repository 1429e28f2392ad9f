"""What the arrays take that a model can save for its backward pass, by the names it gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jax.extend.core import Jaxpr, Literal, jaxprs_in_params
from redco_plan import LayerProduct, Plan

PRODUCTS = ("dot_general", "ragged_dot_general")


def saved_sizes(
    plan: Plan, rows: int, products: Mapping[str, LayerProduct] = MappingProxyType({})
) -> dict[str, str]:
    """Return name -> MB of a layer and an example: of results of products, which cost FLOPs to make again.

    rows: examples that `plan` was traced with.
    products: those that have the path of their parameter as a name, when steps run.
    """
    own = plan.frozen or products.keys()  # beside an adapter: what it adds is part of the base's
    named = {path: one.bytes for path, one in products.items() if one.bytes and path in own}
    sizes = defaultdict[str, int](int, named)
    for name, size in _named_products(plan.jaxpr):
        sizes[name] += size
    megabytes = {name: size / rows / 1e6 for name, size in sizes.items()}
    return {name: f"{x:.1f}" if x > 0.1 else f"{x:.1g}" for name, x in megabytes.items()}


def _named_products(jaxpr: Jaxpr, looped: bool = False) -> Iterator[tuple[str, int]]:
    """Yield (name, bytes) of the results of products that bodies of loops name, but for their outputs."""
    makers = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            yield from _named_products(body, looped or eqn.primitive.name == "scan")
        is_name = looped and eqn.primitive.name == "name" and eqn.outvars[0] not in jaxpr.outvars
        if is_name and _multiplies(eqn, makers):
            array: Any = eqn.outvars[0].aval  # jax types it as the base of all values
            yield eqn.params["name"], array.size * array.dtype.itemsize


def _multiplies(eqn: Any, makers: Mapping[Any, Any]) -> bool:
    """Return whether a product lies between an array with a name and the next ones before it."""
    before = [makers[var] for var in eqn.invars if not isinstance(var, Literal) and var in makers]
    return any(
        _is_product(one) or (one.primitive.name != "name" and _multiplies(one, makers))
        for one in before
    )


def _is_product(eqn: Any) -> bool:
    """Return whether an equation is a product, or calls one."""
    bodies = jaxprs_in_params(eqn.params)
    return eqn.primitive.name in PRODUCTS or any(_is_product(e) for b in bodies for e in b.eqns)
