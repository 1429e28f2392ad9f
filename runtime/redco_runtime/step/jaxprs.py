"""What a trace of a program says: its loops over layers, the arrays that these leave, and how devices split them."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from jax.extend.core import Jaxpr, Literal, jaxprs_in_params

from ..layout.mesh import axes_of
from ..nn.saved_names import LOGITS
from .flops import equation_flops

Makers = dict[Any, Any]  # a variable of a program -> the equation that makes it


def makers_of(body: Jaxpr) -> Makers:
    """Return the equation that makes each variable of a program."""
    return {var: maker for maker in body.eqns for var in maker.outvars}


def layer_loops(jaxpr: Jaxpr, parts: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield the loops over layers, forward: those whose body names arrays; and parts, as `chunk_loops` does."""
    for eqn in jaxpr.eqns:
        bodies = list(jaxprs_in_params(eqn.params))
        if eqn.primitive.name == "scan" and {*_names(bodies[0])} - {LOGITS}:
            yield eqn, parts
        else:
            for body in bodies:
                yield from layer_loops(body, parts * shard_parts(eqn, body))


def stacks_around(jaxpr: Jaxpr) -> int:
    """Return the bytes that the loops leave which go over layers several times, as micro-batches in stages do."""
    size = 0
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            if any(layer_loops(body)):
                left = by_step(body.outvars, eqn.outvars) if eqn.primitive.name == "scan" else ()
                size += sum(bytes_of(outer) for _, outer in left) + stacks_around(body)
    return size


def _names(jaxpr: Jaxpr) -> Iterator[str]:
    """Yield the names that a program gives to arrays."""
    return (eqn.params["name"] for eqn in jaxpr.eqns if eqn.primitive.name == "name")


def chunk_loops(jaxpr: Jaxpr, parts: int = 1) -> Iterator[tuple[Any, int]]:
    """Yield the loops that name logits, and into how many parts a shard_map around them splits arrays."""
    for eqn in jaxpr.eqns:
        for body in jaxprs_in_params(eqn.params):
            if eqn.primitive.name == "scan" and LOGITS in _names(body):
                yield eqn, parts
            else:
                yield from chunk_loops(body, parts * shard_parts(eqn, body))


def split_parts(eqn: Any, body: Jaxpr, makers: Makers) -> dict[Any, int]:
    """Return into how many parts the devices split the arrays of a loop's body that are laid out.

    What a layer takes over lies as what it hands on.
    """
    parts: dict[Any, int] = {}
    for one in body.eqns:
        if one.primitive.name == "sharding_constraint":
            mesh, spec = one.params["sharding"].mesh.shape, one.params["sharding"].spec
            count = math.prod(mesh[axis] for entry in spec for axis in axes_of(entry))
            parts[unrounded(one.invars[0], makers)] = parts[one.outvars[0]] = count
    entering, leaving = _whole(body.invars, eqn.invars), _whole(body.outvars, eqn.outvars)
    constants = len(entering) - len(leaving)
    for first, last in zip(entering[constants:], leaving, strict=True):
        if (last := unrounded(last, makers)) in parts:
            parts[first] = parts[last]
    return parts


def _whole(inside: Iterable[Any], outside: Iterable[Any]) -> list[Any]:
    """Return what a loop has whole in each step: constants and what it carries, in this order."""
    return [a for a, b in zip(inside, outside, strict=True) if a.aval.ndim == b.aval.ndim]


def by_step(inside: Iterable[Any], outside: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of what a loop has a part of in each step: it has a dim more outside."""
    for inner, outer in zip(inside, outside, strict=True):
        if outer.aval.ndim > inner.aval.ndim:
            yield inner, outer


def unrounded(var: Any, makers: Makers) -> Any:
    """Return a variable as it was before JAX rounded it to be saved, which changes nothing."""
    while var in makers and makers[var].primitive.name == "reduce_precision":
        (var,) = makers[var].invars
    return var


def product_flops(maker: Any, makers: Makers) -> int:
    """Return the FLOPs of the products between an array with a name and the next ones before it."""
    todo, done, total = [*maker.invars], set(), 0
    while todo:
        atom = todo.pop()
        before = None if isinstance(atom, Literal) else makers.get(atom)
        if before is not None and before.primitive.name != "name" and id(before) not in done:
            done.add(id(before))
            total += equation_flops(before)
            todo += before.invars
    return total


def shard_parts(eqn: Any, body: Jaxpr) -> int:
    """Return into how many parts a shard_map splits arrays before `body`; 1 for another equation."""
    if eqn.primitive.name != "shard_map":
        return 1
    pairs = zip(eqn.invars, body.invars, strict=True)
    return max((bytes_of(a) // bytes_of(b) for a, b in pairs), default=1)


def bytes_of(var: Any) -> int:
    """Return the bytes of an array, on all devices together where it is split."""
    return math.prod(var.aval.shape) * var.aval.dtype.itemsize
