"""Jaxprs and their equations, as both kinds of JAX have them: up to 0.10, and from 0.11 on, where a closed one is a Jaxpr too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Var


def rewrite_jaxprs(value: Any, rewrite: Callable[[Jaxpr], Jaxpr]) -> Any:
    """Return a parameter of an equation with each jaxpr in it rewritten; another one as it is."""
    if isinstance(value, tuple) and any(isinstance(one, Jaxpr | ClosedJaxpr) for one in value):
        return tuple(rewrite_jaxprs(one, rewrite) for one in value)
    if isinstance(value, Jaxpr):
        return rewrite(value)
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=rewrite(value.jaxpr))
    return value


def scan_sizes(eqn: JaxprEqn) -> tuple[int, int]:
    """Return how many constants and how many carries a scan has, in this order of its inputs.

    Its parameters say so in another form from 0.11 on. In both, the arrays that it runs over, or stacks
    up, have a dim less in its body, and the others do not.
    """
    body = eqn.params["jaxpr"].jaxpr
    carries = _whole(eqn.outvars, body.outvars)
    return _whole(eqn.invars, body.invars) - carries, carries


def _whole(outside: Iterable[Any], inside: Iterable[Any]) -> int:
    """Return how many arrays have as many dims inside the loop as outside."""
    return sum(a.aval.ndim == b.aval.ndim for a, b in zip(outside, inside, strict=True))


def rewrite_inside(eqn: JaxprEqn, rewrite: Callable[[Jaxpr], Jaxpr]) -> JaxprEqn:
    """Return an equation with the jaxprs in it rewritten, if its gradient is theirs."""
    if eqn.primitive.name.startswith("custom_") or eqn.primitive.name == "shard_map":
        return eqn

    changed = []

    def new(old: Jaxpr) -> Jaxpr:
        jaxpr = rewrite(old)
        changed.append(jaxpr is not old)
        return jaxpr

    params = {name: rewrite_jaxprs(value, new) for name, value in eqn.params.items()}
    return eqn.replace(params=params) if any(changed) else eqn


def make_call(
    function: Callable[..., Any], inputs: list[Var], outputs: list[Var], like: JaxprEqn
) -> JaxprEqn:
    """Return an equation that calls a function of arrays, in the place and at the line of another."""
    shapes = [jax.ShapeDtypeStruct(shape_of(var), dtype_of(var)) for var in inputs]
    (call,) = jax.make_jaxpr(jax.jit(function))(*shapes).jaxpr.eqns
    return call.replace(invars=inputs, outvars=outputs, source_info=like.source_info)


def bind(eqn: JaxprEqn, operands: Iterable[Any], **params: Any) -> list[jax.Array]:
    """Return the outputs of an equation for arrays, some of its parameters replaced by `params`."""
    bind_params = eqn.primitive.get_bind_params(eqn.params)
    outputs = eqn.primitive.bind(*operands, **{**bind_params, **params})
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


def shape_of(atom: Any) -> tuple[int, ...]:
    """Return the shape of a variable or a literal, which jax types as the base of all values."""
    shape: tuple[int, ...] = atom.aval.shape
    return shape


def dtype_of(atom: Any) -> Any:
    """Return the type of the elements of a variable or a literal."""
    return atom.aval.dtype
