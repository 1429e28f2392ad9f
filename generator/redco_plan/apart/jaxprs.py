"""Jaxprs as both kinds of JAX have them: up to 0.10, and from 0.11 on, where a closed one is a Jaxpr too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn


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
