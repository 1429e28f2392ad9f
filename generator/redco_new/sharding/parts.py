"""A program whose fused arrays have their parts apart: q, k and v of one kernel, gate and up.

An array of k equal parts side by side along a dim cannot be split so that each device holds its
share of every part. Here its dim of k * F elements is two dims, k and F, until something needs it
in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
import jax
from jax._src import source_info_util
from jax.extend.core import Jaxpr, Literal
import math
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr
from redco_new.sharding.rules.shapes import ELEMENTWISE


@dataclass(frozen=True)
class Parts:
    """An array whose dim `dim`, of k * F elements, is the dims `dim` and `dim + 1` of `array`."""

    dim: int
    array: jax.Array

    @property
    def count(self) -> int:
        return self.array.shape[self.dim]

    @property
    def size(self) -> int:
        """Elements of one part."""
        return self.array.shape[self.dim + 1]

    def whole(self) -> jax.Array:
        before, after = self.array.shape[: self.dim], self.array.shape[self.dim + 2 :]
        return self.array.reshape(*before, self.count * self.size, *after)


Rule = Callable[[Any, list[Any]], list[Any] | None]


RULES: dict[str, Rule] = {}


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Register what primitives make of inputs some of which are Parts; None: they need them whole."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(primitives, function))
        return function

    return register


def evaluate(jaxpr: Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a program, arrays or Parts, for inputs that are arrays or Parts."""
    env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *inputs), strict=True))
    for eqn in jaxpr.eqns:
        values = [a.val if isinstance(a, Literal) else env[a] for a in eqn.invars]
        stack = source_info_util.current_name_stack() + eqn.source_info.name_stack
        context = source_info_util.user_context(eqn.source_info.traceback, name_stack=stack)
        with context, eqn.ctx.manager:
            made = None
            if any(isinstance(value, Parts) for value in values) and eqn.primitive.name in RULES:
                made = RULES[eqn.primitive.name](eqn, values)
            if made is None:
                made = bind(eqn, map(whole, values))
        env.update(zip(eqn.outvars, made, strict=True))
    return [a.val if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def bind(eqn: Any, values: Any, **params: Any) -> list[Any]:
    """The outputs of an equation, some of its parameters replaced."""
    known = eqn.primitive.get_bind_params(eqn.params)
    made = eqn.primitive.bind(*values, **{**known, **params})
    return list(made) if eqn.primitive.multiple_results else [made]


def whole(value: Any) -> Any:
    return value.whole() if isinstance(value, Parts) else value


@rule(*ELEMENTWISE, "convert_element_type", "name")
def elementwise(eqn: Any, values: list[Any]) -> list[Parts] | None:
    """The dim of the other inputs is made two as well."""
    first = next(value for value in values if isinstance(value, Parts))
    if any(isinstance(v, Parts) and (v.dim, v.size) != (first.dim, first.size) for v in values):
        return None

    def like_first(value: Any) -> Any:
        if isinstance(value, Parts) or not jnp.ndim(value):
            return getattr(value, "array", value)
        middle = (first.count, first.size) if value.shape[first.dim] > 1 else (1, 1)
        return value.reshape(*value.shape[: first.dim], *middle, *value.shape[first.dim + 1 :])

    return [Parts(first.dim, array) for array in bind(eqn, map(like_first, values))]


@rule("transpose")
def transpose(eqn: Any, values: list[Any]) -> list[Parts]:
    (value,), order = values, eqn.params["permutation"]
    places = [p for d in order for p in two(value, d)]
    return [Parts(order.index(value.dim), jax.lax.transpose(value.array, places))]


@rule("broadcast_in_dim")
def broadcast_in_dim(eqn: Any, values: list[Any]) -> list[Parts]:
    value, places, shape = values[0], eqn.params["broadcast_dimensions"], eqn.params["shape"]
    dim = places[value.dim]
    shape = (*shape[:dim], value.count, value.size, *shape[dim + 1 :])
    places = [p + (p > dim) for p in places]
    places.insert(value.dim + 1, dim + 1)
    return [Parts(dim, jax.lax.broadcast_in_dim(value.array, shape, places))]


@rule("reshape")
def reshape(eqn: Any, values: list[Any]) -> list[Any] | None:
    """The dim stays a dim, or its two dims are what is asked for: (3 * F) to (3, F)."""
    value, shape = values[0], eqn.outvars[0].aval.shape
    before = math.prod(value.array.shape[: value.dim])
    for dim, size in enumerate(shape):
        if math.prod(shape[:dim]) == before and size == value.count * value.size:
            kept = (*shape[:dim], value.count, value.size, *shape[dim + 1 :])
            return [Parts(dim, value.array.reshape(kept))]
        if math.prod(shape[:dim]) == before and size == value.count:
            return [value.array.reshape(shape)]
    return None


@rule("slice")
def cut(eqn: Any, values: list[Any]) -> list[Any] | None:
    value, start, limit = values[0], eqn.params["start_indices"], eqn.params["limit_indices"]
    ranges = list(zip(start, limit, eqn.params["strides"] or [1] * len(start), strict=True))
    first, last, stride = ranges[value.dim]
    if first % value.size or last % value.size or stride != 1:
        return None
    ranges[value.dim : value.dim + 1] = [
        (first // value.size, last // value.size, 1),
        (0, value.size, 1),
    ]
    return [joined(value.dim, jax.lax.slice(value.array, *zip(*ranges, strict=True)))]


@rule("split")
def split(eqn: Any, values: list[Any]) -> list[Any] | None:
    value, sizes, axis = values[0], eqn.params["sizes"], eqn.params["axis"]
    if axis != value.dim:
        return [Parts(value.dim, a) for a in jax.lax.split(value.array, sizes, two(value, axis)[0])]
    if any(size % value.size for size in sizes):
        return None
    counts = [size // value.size for size in sizes]
    return [joined(axis, array) for array in jax.lax.split(value.array, counts, axis)]


@rule("dot_general")
def dot_general(eqn: Any, values: list[Any]) -> list[Parts] | None:
    """A free dim of one operand is one of the output."""
    side = next(i for i, value in enumerate(values) if isinstance(value, Parts))
    value, other = values[side], whole(values[1 - side])
    contracted, batch = eqn.params["dimension_numbers"]
    taken = [{*contracted[i], *batch[i]} for i in (0, 1)]
    if value.dim in taken[side]:
        return None
    free = [
        [d for d in range(len(var.aval.shape)) if d not in dims]
        for var, dims in zip(eqn.invars, taken, strict=True)
    ]
    dim = len(batch[0]) + free[side].index(value.dim) + (len(free[0]) if side else 0)
    numbers = [list(map(tuple, pair)) for pair in (contracted, batch)]
    for pair in numbers:
        pair[side] = tuple(two(value, d)[0] for d in pair[side])
    operands = (value.array, other) if side == 0 else (other, value.array)
    (array,) = bind(eqn, operands, dimension_numbers=tuple(map(tuple, numbers)))
    return [Parts(dim, array)]


@rule("jit", "pjit", "closed_call")
def call(eqn: Any, values: list[Any]) -> list[Any] | None:
    """The body, inlined."""
    body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return evaluate(body.jaxpr, body.consts, values) if isinstance(body, ClosedJaxpr) else None


@rule("remat", "remat2", "checkpoint")
def remat(eqn: Any, values: list[Any]) -> list[Any]:
    def run(*arrays: Any) -> list[Any]:
        return [*map(whole, evaluate(eqn.params["jaxpr"], (), like(values, arrays)))]

    options = {k: eqn.params[k] for k in ("policy", "prevent_cse")}
    return jax.checkpoint(run, **options)(*map(array_of, values))


@rule("scan")
def scan(eqn: Any, values: list[Any]) -> list[Any] | None:
    """Parts of what is the same in each step, or of the layers that a loop runs over."""
    body, fixed, carried = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    consts, carry, stacked = (
        values[:fixed],
        values[fixed : fixed + carried],
        values[fixed + carried :],
    )
    if any(isinstance(value, Parts) and value.dim == 0 for value in stacked):
        return None
    layers = [Parts(v.dim - 1, v.array) if isinstance(v, Parts) else v for v in stacked]

    def step(carry: Any, arrays: Any) -> Any:
        inputs = [*consts, *carry, *like(layers, arrays)]
        made = [*map(whole, evaluate(body.jaxpr, body.consts, inputs))]
        return made[:carried], made[carried:]

    options = {k: eqn.params[k] for k in ("length", "reverse", "unroll")}
    end, collected = jax.lax.scan(step, [*map(whole, carry)], [*map(array_of, layers)], **options)
    return [*end, *collected]


def two(value: Parts, dim: int) -> list[int]:
    """Where a dim of the array that `value` stands for is in `value.array`: two dims, or one."""
    return [dim, dim + 1] if dim == value.dim else [dim + (dim > value.dim)]


def joined(dim: int, array: jax.Array) -> Any:
    """One part is an array as any other."""
    return Parts(dim, array) if array.shape[dim] > 1 else jax.lax.squeeze(array, [dim])


def array_of(value: Any) -> Any:
    return value.array if isinstance(value, Parts) else value


def like(values: list[Any], arrays: Any) -> list[Any]:
    """`arrays`, as Parts where `values` are."""
    pairs = zip(values, arrays, strict=True)
    return [Parts(v.dim, array) if isinstance(v, Parts) else array for v, array in pairs]
