"""A program whose fused arrays have their parts apart: q, k and v of one kernel, gate and up.

An array of k equal parts side by side along a dim cannot be split so that each device has its
share of every part. Here its dim of k * F elements is two dims, k and F, until something needs it
in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from redco_new.sharding.graph import shape_of
from redco_new.sharding.rules.shapes import ELEMENTWISE


@dataclass(frozen=True)
class Parts:
    """An array whose dim `dim`, of k * F elements, is the dims `dim` and `dim + 1` of `array`."""

    dim: int
    array: jax.Array

    @property
    def count(self) -> int:
        """Number of parts, k."""
        return self.array.shape[self.dim]

    @property
    def size(self) -> int:
        """Elements of one part, F."""
        return self.array.shape[self.dim + 1]

    def whole(self) -> jax.Array:
        """Return the array with its parts in one dim."""
        before, after = self.array.shape[: self.dim], self.array.shape[self.dim + 2 :]
        return self.array.reshape(*before, self.count * self.size, *after)


Operand = jax.Array | Parts
# (equation, inputs) -> outputs for inputs some of which are Parts; None: they must be whole
PartsRule = Callable[[JaxprEqn, list[Operand]], Sequence[Operand] | None]
PARTS_RULES: dict[str, PartsRule] = {}


def _parts_rule(*primitives: str) -> Callable[[PartsRule], PartsRule]:
    """Register what primitives make of inputs some of which are Parts."""

    def register(function: PartsRule) -> PartsRule:
        PARTS_RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Operand]) -> list[Operand]:
    """Return the outputs of a jaxpr, arrays or Parts, for inputs that are arrays or Parts."""
    values: dict[Var, Operand] = dict(
        zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True)
    )
    for eqn in jaxpr.eqns:
        operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
        stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
        context = source_info_util.user_context(eqn.source_info.traceback, name_stack=stack)
        with context, eqn.ctx.manager:
            outputs: Sequence[Operand] | None = None
            rule = PARTS_RULES.get(eqn.primitive.name)
            if rule is not None and any(isinstance(operand, Parts) for operand in operands):
                outputs = rule(eqn, operands)
            if outputs is None:
                outputs = _bind(eqn, map(whole_array, operands))
        values.update(zip(eqn.outvars, outputs, strict=True))
    return [a.val if isinstance(a, Literal) else values[a] for a in jaxpr.outvars]


def whole_array(value: Operand) -> jax.Array:
    """Return an array as it is, and Parts in one piece."""
    return value.whole() if isinstance(value, Parts) else value


def _bind(eqn: JaxprEqn, operands: Iterable[Any], **params: Any) -> list[jax.Array]:
    """Return the outputs of an equation, some of its parameters replaced by `params`."""
    bind_params = eqn.primitive.get_bind_params(eqn.params)
    outputs = eqn.primitive.bind(*operands, **{**bind_params, **params})
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


@_parts_rule(*ELEMENTWISE, "convert_element_type", "name")
def _elementwise(eqn: JaxprEqn, values: list[Operand]) -> list[Parts] | None:
    """Make the dim of the other inputs two as well."""
    first = next(value for value in values if isinstance(value, Parts))
    if any(isinstance(v, Parts) and (v.dim, v.size) != (first.dim, first.size) for v in values):
        return None

    def like_first(value: Operand) -> jax.Array:
        if isinstance(value, Parts) or not jnp.ndim(value):
            return _array_of(value)
        middle = (first.count, first.size) if value.shape[first.dim] > 1 else (1, 1)
        return value.reshape(*value.shape[: first.dim], *middle, *value.shape[first.dim + 1 :])

    return [Parts(first.dim, array) for array in _bind(eqn, map(like_first, values))]


@_parts_rule("transpose")
def _transpose(eqn: JaxprEqn, values: list[Operand]) -> list[Parts]:
    """Permute the dims, the two of the parts together."""
    value, order = _parts(values[0]), eqn.params["permutation"]
    places = [place for dim in order for place in _dims_in_array(value, dim)]
    return [Parts(order.index(value.dim), jax.lax.transpose(value.array, places))]


@_parts_rule("broadcast_in_dim")
def _broadcast_in_dim(eqn: JaxprEqn, values: list[Operand]) -> list[Parts]:
    """Add dims around the two of the parts."""
    value, places, shape = (
        _parts(values[0]),
        eqn.params["broadcast_dimensions"],
        eqn.params["shape"],
    )
    dim = places[value.dim]
    shape = (*shape[:dim], value.count, value.size, *shape[dim + 1 :])
    places = [place + (place > dim) for place in places]
    places.insert(value.dim + 1, dim + 1)
    return [Parts(dim, jax.lax.broadcast_in_dim(value.array, shape, places))]


@_parts_rule("reshape")
def _reshape(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Keep the dim, or return its two dims where the program asks for them: (3 * F) to (3, F)."""
    value, shape = _parts(values[0]), shape_of(eqn.outvars[0])
    before = math.prod(value.array.shape[: value.dim])
    for dim, size in enumerate(shape):
        if math.prod(shape[:dim]) == before and size == value.count * value.size:
            apart = (*shape[:dim], value.count, value.size, *shape[dim + 1 :])
            return [Parts(dim, value.array.reshape(apart))]
        if math.prod(shape[:dim]) == before and size == value.count:
            return [value.array.reshape(shape)]
    return None


@_parts_rule("slice")
def _slice(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Cut out whole parts."""
    value, start, limit = (
        _parts(values[0]),
        eqn.params["start_indices"],
        eqn.params["limit_indices"],
    )
    ranges = list(zip(start, limit, eqn.params["strides"] or [1] * len(start), strict=True))
    first, last, stride = ranges[value.dim]
    if first % value.size or last % value.size or stride != 1:
        return None
    ranges[value.dim : value.dim + 1] = [
        (first // value.size, last // value.size, 1),
        (0, value.size, 1),
    ]
    return [_unless_one(value.dim, jax.lax.slice(value.array, *zip(*ranges, strict=True)))]


@_parts_rule("split")
def _split(eqn: JaxprEqn, values: list[Operand]) -> Sequence[Operand] | None:
    """Cut into whole parts, or along another dim."""
    value, sizes, dim = _parts(values[0]), eqn.params["sizes"], eqn.params["axis"]
    if dim != value.dim:
        arrays = jax.lax.split(value.array, sizes, _dims_in_array(value, dim)[0])
        return [Parts(value.dim, array) for array in arrays]
    if any(size % value.size for size in sizes):
        return None
    counts = [size // value.size for size in sizes]
    return [_unless_one(dim, array) for array in jax.lax.split(value.array, counts, dim)]


@_parts_rule("dot_general")
def _dot_general(eqn: JaxprEqn, values: list[Operand]) -> list[Parts] | None:
    """Pass a free dim of one operand through to the output."""
    side = next(i for i, value in enumerate(values) if isinstance(value, Parts))
    value, other = _parts(values[side]), whole_array(values[1 - side])
    contracted, batch = eqn.params["dimension_numbers"]
    paired = [{*contracted[i], *batch[i]} for i in (0, 1)]
    if value.dim in paired[side]:
        return None
    free = [
        [d for d in range(len(shape_of(var))) if d not in dims]
        for var, dims in zip(eqn.invars, paired, strict=True)
    ]
    dim = len(batch[0]) + free[side].index(value.dim) + (len(free[0]) if side else 0)
    numbers = [list(map(tuple, pair)) for pair in (contracted, batch)]
    for pair in numbers:
        pair[side] = tuple(_dims_in_array(value, d)[0] for d in pair[side])
    operands = (value.array, other) if side == 0 else (other, value.array)
    (array,) = _bind(eqn, operands, dimension_numbers=tuple(map(tuple, numbers)))
    return [Parts(dim, array)]


@_parts_rule("jit", "pjit", "closed_call")
def _call(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Evaluate the body, inlined."""
    body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return evaluate(body.jaxpr, body.consts, values) if isinstance(body, ClosedJaxpr) else None


@_parts_rule("remat", "remat2", "checkpoint")
def _remat(eqn: JaxprEqn, values: list[Operand]) -> Sequence[Operand]:
    """Evaluate the body, under a checkpoint of the same policy."""

    def run(*arrays: jax.Array) -> list[jax.Array]:
        return [*map(whole_array, evaluate(eqn.params["jaxpr"], (), _like(values, arrays)))]

    options = {k: eqn.params[k] for k in ("policy", "prevent_cse")}
    return jax.checkpoint(run, **options)(*map(_array_of, values))


@_parts_rule("scan")
def _scan(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Loop with parts of what is the same in each step, or of the layers that it runs over."""
    body, n_consts, n_carry = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    consts, carry, stacked = (
        values[:n_consts],
        values[n_consts : n_consts + n_carry],
        values[n_consts + n_carry :],
    )
    if any(isinstance(value, Parts) and value.dim == 0 for value in stacked):
        return None
    layers = [Parts(v.dim - 1, v.array) if isinstance(v, Parts) else v for v in stacked]

    def step(
        carry: list[jax.Array], arrays: list[jax.Array]
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        inputs = [*consts, *carry, *_like(layers, arrays)]
        outputs = [*map(whole_array, evaluate(body.jaxpr, body.consts, inputs))]
        return outputs[:n_carry], outputs[n_carry:]

    options = {k: eqn.params[k] for k in ("length", "reverse", "unroll")}
    end, stacks = jax.lax.scan(
        step, [*map(whole_array, carry)], [*map(_array_of, layers)], **options
    )
    return [*end, *stacks]


def _parts(value: Operand) -> Parts:
    """Return the input of a rule that has a single one, or one of a kind: it is Parts."""
    assert isinstance(value, Parts)
    return value


def _dims_in_array(value: Parts, dim: int) -> list[int]:
    """Return the dims of `value.array` that are dim `dim` of what it stands for: two, or one."""
    return [dim, dim + 1] if dim == value.dim else [dim + (dim > value.dim)]


def _unless_one(dim: int, array: jax.Array) -> Operand:
    """Return Parts, but a single part as an array like any other."""
    return Parts(dim, array) if array.shape[dim] > 1 else jax.lax.squeeze(array, [dim])


def _array_of(value: Operand) -> jax.Array:
    """Return an array as it is, and of Parts the array with two dims."""
    return value.array if isinstance(value, Parts) else value


def _like(values: Sequence[Operand], arrays: Iterable[jax.Array]) -> list[Operand]:
    """Return `arrays`, as Parts where `values` are."""
    pairs = zip(values, arrays, strict=True)
    return [Parts(v.dim, array) if isinstance(v, Parts) else array for v, array in pairs]
