"""Model FLOPs of a step, counted in the traced program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr


def training_flops(loss: Callable[..., Any], *args: Any) -> int:
    """FLOPs of the matrix products of one forward and backward pass, without recomputation.

    The backward pass does each product twice, once an operand (Kaplan et al. 2020, section 2.1).
    args: arrays or ShapeDtypeStructs; nothing is computed.
    """
    return 3 * count(jax.make_jaxpr(loss)(*args).jaxpr)


def count(jaxpr: Jaxpr) -> int:
    """FLOPs of the matrix products of a jaxpr; a loop of unknown length counts once."""
    total = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            total += 2 * eqn.outvars[0].aval.size * int(np.prod([shape[i] for i in contracted]))
        times = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
        total += times * sum(count(body) for body in bodies(eqn.params))
    return total


def bodies(params: dict[str, Any]) -> list[Jaxpr]:
    """The programs that an equation holds; of a branch, its first."""
    found = []
    for value in params.values():
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, ClosedJaxpr):
            found.append(first.jaxpr)
        elif isinstance(first, Jaxpr):
            found.append(first)
    return found
