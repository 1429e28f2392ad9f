"""Model FLOPs of a step, counted in the traced program."""

import math
from typing import Any

import jax
from jax.extend.core import Jaxpr, jaxprs_in_params

from ..base.contracts import Steps
from ..base.state import PyTree


def training_flops(steps: Steps, batch: PyTree) -> int:
    """Return the FLOPs of the matrix products of one forward and backward pass, without recomputation.

    The backward pass does each product twice, once an operand (Kaplan et al. 2020, section 2.1).
    batch: arrays or ShapeDtypeStructs; nothing is computed.
    """
    # On no device: a kernel does not say what it computes, the formula in its place does.
    mesh = jax.sharding.get_abstract_mesh().update(abstract_device=None)
    arguments = (steps.state.model, batch, jax.eval_shape(jax.random.key, 0))
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
    with jax.sharding.use_abstract_mesh(mesh):
        loss = jax.make_jaxpr(steps.loss)(*shapes)
    return 3 * count_flops(loss.jaxpr)


def count_flops(jaxpr: Jaxpr) -> int:
    """Return the FLOPs of its matrix products: a loop of unknown length once, the longest branch."""
    return sum(map(equation_flops, jaxpr.eqns))


def equation_flops(eqn: Any) -> int:
    """Return the same of one of its equations, with all that it calls."""
    name = eqn.primitive.name
    if name in ("dot_general", "ragged_dot_general"):
        numbers = eqn.params.get("dimension_numbers") or eqn.params["ragged_dot_dimension_numbers"]
        (contracted, _), _ = getattr(numbers, "dot_dimension_numbers", numbers)
        operand, product = eqn.invars[0].aval, eqn.outvars[0].aval
        return 2 * product.size * math.prod(operand.shape[dim] for dim in contracted)
    bodies = [count_flops(body) for body in jaxprs_in_params(eqn.params)]
    times = eqn.params["length"] if name == "scan" else 1
    return times * (max(bodies) if name == "cond" else sum(bodies))
