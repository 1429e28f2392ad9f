"""What each primitive makes of arrays that are in parts."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from redco_new.sharding.parts import Parts, bind, evaluate, flat, rule, whole
from redco_new.sharding.rules import ELEMENTWISE


@rule(*ELEMENTWISE, "convert_element_type", "name")
def elementwise(eqn: Any, values: list[Any]) -> list[Parts] | None:
    """Each part by itself; what is not in parts is cut as they are."""
    first = next(value for value in values if isinstance(value, Parts))
    if any(isinstance(v, Parts) and (v.dim, v.size) != (first.dim, first.size) for v in values):
        return None

    def piece(value: Any, i: int) -> Any:
        if isinstance(value, Parts):
            return value.arrays[i]
        if jnp.ndim(value) == 0 or value.shape[first.dim] == 1:
            return value
        return jax.lax.slice_in_dim(value, i * first.size, (i + 1) * first.size, axis=first.dim)

    params = {"sharding": None} if "sharding" in eqn.params else {}
    made = [bind(eqn, [piece(v, i) for v in values], **params) for i in range(len(first.arrays))]
    return [Parts(first.dim, tuple(arrays)) for arrays in zip(*made, strict=True)]


@rule("transpose")
def transpose(eqn: Any, values: list[Any]) -> list[Parts]:
    (value,), order = values, eqn.params["permutation"]
    arrays = (jax.lax.transpose(array, order) for array in value.arrays)
    return [Parts(order.index(value.dim), tuple(arrays))]


@rule("broadcast_in_dim")
def broadcast_in_dim(eqn: Any, values: list[Any]) -> list[Parts]:
    value, places = values[0], eqn.params["broadcast_dimensions"]
    dim, shape = places[value.dim], list(eqn.params["shape"])
    shape[dim] = value.size
    arrays = (jax.lax.broadcast_in_dim(array, shape, places) for array in value.arrays)
    return [Parts(dim, tuple(arrays))]


@rule("reshape")
def reshape(eqn: Any, values: list[Any]) -> list[Any] | None:
    """The dim stays a dim, or its parts become one: (3 * F) is then (3, F), a stack of parts."""
    value, shape = values[0], eqn.outvars[0].aval.shape
    before = math.prod(value.arrays[0].shape[: value.dim])
    count = len(value.arrays)
    for dim, size in enumerate(shape):
        if math.prod(shape[:dim]) != before or size == 1:
            continue
        if size == count * value.size:
            kept = (*shape[:dim], value.size, *shape[dim + 1 :])
            return [Parts(dim, tuple(array.reshape(kept) for array in value.arrays))]
        if size == count:
            rest = (*shape[:dim], *shape[dim + 1 :])
            return [jnp.stack([array.reshape(rest) for array in value.arrays], dim)]
    return None


@rule("slice")
def cut(eqn: Any, values: list[Any]) -> list[Any] | None:
    value, strides = values[0], eqn.params["strides"]
    start, limit = list(eqn.params["start_indices"]), list(eqn.params["limit_indices"])
    first, last = start[value.dim], limit[value.dim]
    if first % value.size or last % value.size or strides and strides[value.dim] != 1:
        return None
    start[value.dim], limit[value.dim] = 0, value.size
    arrays = value.arrays[first // value.size : last // value.size]
    return [joined(value.dim, [jax.lax.slice(a, start, limit, strides) for a in arrays])]


@rule("split")
def split(eqn: Any, values: list[Any]) -> list[Any] | None:
    value, sizes, axis = values[0], eqn.params["sizes"], eqn.params["axis"]
    if axis != value.dim:
        made = [jax.lax.split(array, sizes, axis) for array in value.arrays]
        return [Parts(value.dim, arrays) for arrays in zip(*made, strict=True)]
    if any(size % value.size for size in sizes):
        return None
    left, made = list(value.arrays), []
    for size in sizes:
        made.append(joined(axis, [left.pop(0) for _ in range(size // value.size)]))
    return made


def joined(dim: int, arrays: list[jax.Array]) -> Any:
    """One part is an array."""
    return Parts(dim, tuple(arrays)) if len(arrays) > 1 else arrays[0]


@rule("dot_general")
def dot_general(eqn: Any, values: list[Any]) -> list[Parts] | None:
    """A free dim of one operand is one of the output."""
    side = next(i for i, value in enumerate(values) if isinstance(value, Parts))
    value, other = values[side], whole(values[1 - side])
    contracted, batch = eqn.params["dimension_numbers"]
    taken = [(*contracted[i], *batch[i]) for i in (0, 1)]
    if value.dim in taken[side]:
        return None
    free = [
        [d for d in range(len(var.aval.shape)) if d not in t]
        for var, t in zip(eqn.invars, taken, strict=True)
    ]
    dim = len(batch[0]) + free[side].index(value.dim) + (len(free[0]) if side else 0)
    pairs = ((array, other) if side == 0 else (other, array) for array in value.arrays)
    return [Parts(dim, tuple(bind(eqn, pair)[0] for pair in pairs))]


@rule("jit", "pjit", "closed_call")
def call(eqn: Any, values: list[Any]) -> list[Any] | None:
    """The body, inlined."""
    body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    return evaluate(body.jaxpr, body.consts, values) if isinstance(body, ClosedJaxpr) else None


@rule("remat", "remat2", "checkpoint")
def remat(eqn: Any, values: list[Any]) -> list[Any]:
    leaves, rebuild = flat(values)
    run = jax.checkpoint(
        lambda *leaves: [*map(whole, evaluate(eqn.params["jaxpr"], (), rebuild(leaves)))],
        policy=eqn.params["policy"],
        prevent_cse=eqn.params["prevent_cse"],
    )
    return run(*leaves)


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
    constants, with_consts = flat(consts)
    layers, with_layers = flat([one_less(value) for value in stacked])

    def step(carry: Any, layers: Any) -> Any:
        inputs = [*with_consts(constants), *carry, *with_layers(layers)]
        made = [*map(whole, evaluate(body.jaxpr, body.consts, inputs))]
        return made[:carried], made[carried:]

    options = {k: eqn.params[k] for k in ("length", "reverse", "unroll")}
    end, collected = jax.lax.scan(step, [*map(whole, carry)], layers, **options)
    return [*end, *collected]


def one_less(value: Any) -> Any:
    """Parts as they are in one step of a loop, where the first dim is gone."""
    return Parts(value.dim - 1, value.arrays) if isinstance(value, Parts) else value
