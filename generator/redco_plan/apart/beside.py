"""Rules of Parts for what is done along other dims than theirs: each part by itself."""

from __future__ import annotations

import jax
from jax.extend.core import JaxprEqn

from .forms import Operand, rule, whole_array
from .jaxprs import bind
from .parts import Parts, cut_like, single_parts

REDUCTIONS = "reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or".split()
CUMULATIVE = "cumsum cumprod cummax cummin cumlogsumexp".split()


@rule(Parts, "pad")
def _pad(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Grow each part, as before a causal convolution."""
    value, config = single_parts(values[0]), eqn.params["padding_config"]
    if config[value.dim] != (0, 0, 0):
        return None
    filling = whole_array(values[1])
    return [Parts(tuple(jax.lax.pad(x, filling, config) for x in value.arrays), value.dim)]


@rule(Parts, *REDUCTIONS)
def _reduce(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Reduce each part."""
    value, axes = single_parts(values[0]), eqn.params["axes"]
    if value.dim in axes:
        return None
    arrays = tuple(bind(eqn, [array])[0] for array in value.arrays)
    return [Parts(arrays, value.dim - sum(axis < value.dim for axis in axes))]


@rule(Parts, *CUMULATIVE)
def _accumulate(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Add up, or the like, along each part."""
    value = single_parts(values[0])
    if value.dim == eqn.params["axis"]:
        return None
    return [Parts(tuple(bind(eqn, [array])[0] for array in value.arrays), value.dim)]


@rule(Parts, "concatenate")
def _concatenate(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Join the same part of all inputs, as of a state and what comes after it."""
    first = next(value for value in values if isinstance(value, Parts))
    if first.dim == eqn.params["dimension"]:
        return None
    columns = zip(*(cut_like(first, value) for value in values), strict=True)
    return [Parts(tuple(bind(eqn, column)[0] for column in columns), first.dim)]
