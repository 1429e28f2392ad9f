"""Model FLOPs of a step, counted in the traced program."""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Jaxpr, jaxprs_in_params


def training_flops(loss: Callable[..., Any], *args: Any) -> int:
    """FLOPs of the matrix products of one forward and backward pass, without recomputation.

    The backward pass does each product twice, once an operand (Kaplan et al. 2020, section 2.1).
    args: arrays or ShapeDtypeStructs; nothing is computed.
    """
    return 3 * count(jax.make_jaxpr(loss)(*args).jaxpr)


def count(jaxpr: Jaxpr) -> int:
    """FLOPs of the matrix products of a jaxpr: a loop of unknown length once, the longest branch."""
    total = 0
    for eqn in jaxpr.eqns:
        name, bodies = eqn.primitive.name, [count(body) for body in jaxprs_in_params(eqn.params)]
        if name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            total += 2 * eqn.outvars[0].aval.size * math.prod(shape[dim] for dim in contracted)
        times = eqn.params["length"] if name == "scan" else 1
        total += times * (max(bodies) if name == "cond" else sum(bodies))
    return total
