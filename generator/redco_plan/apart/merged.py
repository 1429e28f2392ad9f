"""A program whose merged dims stay apart: the batch and the heads of `x.reshape(B * N, S, H)`.

A dim of B * N elements whose rows lie on some devices and whose heads lie on others has no layout
that a compiler could express. Here it is two dims, until something needs it in one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from .forms import ELEMENTWISE, Form, Operand, rule, whole_array
from .jaxprs import bind, shape_of

Shape = tuple[int, ...]


@partial(jax.tree_util.register_dataclass, data_fields=["array"], meta_fields=["counts"])
@dataclass(frozen=True)
class Merged(Form):
    """An array whose dims are runs of the dims of `array`: as many of these as `counts` says."""

    array: jax.Array
    counts: tuple[int, ...]

    @property
    def factors(self) -> list[Shape]:
        """The sizes that the elements of each dim are the product of, the major one first."""
        sizes = iter(self.array.shape)
        return [tuple(next(sizes) for _ in range(count)) for count in self.counts]

    def whole(self) -> jax.Array:
        """Return the array in one piece."""
        return self.array.reshape([*map(math.prod, self.factors)])

    def of_layer(self) -> Merged | None:
        """Return the form of each array that this one is a stack of; None if that dim is merged."""
        return Merged(self.array, self.counts[1:]) if self.counts[0] == 1 else None


@rule(object, "reshape")
def _reshape(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Keep the dims apart that are merged, of an array in any form."""
    if eqn.params["dimensions"] is not None:
        return None
    return [_merge(values[0], eqn.params["new_sizes"])]


def _merge(value: Operand, shape: Shape) -> Operand:
    """Return `value` in another shape, its first dim apart if it is a product of whole dims.

    The first dim is that of the rows. Others, such as chunks of positions that come together again,
    are one dim once they are merged; but what is apart stays apart.
    """
    array, own = _array_of(value), {*_factors(value)}
    factors: list[Shape] = []
    for run, after in _runs(array.shape, shape):
        apart = len(run) > 1 == len(after) and (
            run in own or all(math.prod(f) == 1 for f in factors)
        )
        factors += [run] if apart else [(size,) for size in after]
    return _form(array.reshape(_flat(factors)), factors)


def _runs(before: Shape, after: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield the smallest runs of dims with equal products; a dim of size 1 is (), (1,)."""
    sizes, left = iter(after), [size for size in before if size != 1]
    for size in sizes:
        if size == 1 or 0 in after:
            yield (), (size,)
            continue
        run, new = [left.pop(0)], [size]
        while math.prod(run) != math.prod(new):
            if math.prod(run) < math.prod(new):
                run.append(left.pop(0))
            else:
                new.append(next(sizes))
        yield tuple(run), tuple(new)


@rule(Merged, *ELEMENTWISE, "convert_element_type", "name")
def _elementwise(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Give all inputs the same dims."""
    ranks = [len(_factors(value)) for value in values]
    shaped = [_factors(value) for value, rank in zip(values, ranks, strict=True) if rank]
    factors = [*map(_common, *shaped)] if len(shaped) > 1 else shaped[0]
    arrays = [
        _in_factors(value, factors) if rank else value
        for value, rank in zip(values, ranks, strict=True)
    ]
    return [_form(array, factors) for array in bind(eqn, arrays)]


@rule(Merged, "transpose")
def _transpose(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Permute the dims, those of one together."""
    factors, order = _factors(values[0]), eqn.params["permutation"]
    places = _places(factors)
    array = jax.lax.transpose(_array_of(values[0]), _flat([places[dim] for dim in order]))
    return [_form(array, [factors[dim] for dim in order])]


@rule(Merged, "broadcast_in_dim")
def _broadcast_in_dim(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Add dims, or elements to those of size 1."""
    old, dims = _factors(values[0]), eqn.params["broadcast_dimensions"]
    factors: list[Shape] = [(size,) for size in eqn.params["shape"]]
    for factor, dim in zip(old, dims, strict=True):
        factors[dim] = factor if math.prod(factor) == factors[dim][0] else factors[dim]
    places = _places(factors)
    array = _array_of(values[0])
    to = _flat([places[dim] for dim in dims])
    return [_form(jax.lax.broadcast_in_dim(array, _flat(factors), to), factors)]


@rule(Merged, "squeeze")
def _squeeze(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Leave out dims of size 1."""
    factors = [f for i, f in enumerate(_factors(values[0])) if i not in eqn.params["dimensions"]]
    return [_form(_array_of(values[0]).reshape(_flat(factors)), factors)]


@rule(Merged, "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or")
def _reduce(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Reduce all that a dim is the product of."""
    factors, axes = _factors(values[0]), eqn.params["axes"]
    places = _flat([_places(factors)[dim] for dim in axes])
    (array,) = bind(eqn, [_array_of(values[0])], axes=places)
    return [_form(array, [f for i, f in enumerate(factors) if i not in axes])]


@rule(Merged, "argmax", "argmin")
def _pick(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Look along a dim in one piece."""
    return _along(eqn, values, [*eqn.params["axes"]], "axes", drop=True)


@rule(Merged, "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulate(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Add up along a dim in one piece."""
    return _along(eqn, values, [eqn.params["axis"]], "axis")


def _along(
    eqn: JaxprEqn, values: list[Operand], dims: list[int], name: str, drop: bool = False
) -> list[Operand]:
    """Return what a primitive makes of an array along `dims`, which the parameter `name` holds."""
    factors = _in_one(_factors(values[0]), dims)
    places = _flat([_places(factors)[dim] for dim in dims])
    value = places[0] if name == "axis" else places
    arrays = bind(eqn, [_in_factors(values[0], factors)], **{name: value})
    left = [f for i, f in enumerate(factors) if not drop or i not in dims]
    return [_form(array, left) for array in arrays]


@rule(Merged, "slice")
def _slice(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Cut dims in one piece, and leave the others as they are."""
    shape = shape_of(eqn.invars[0])
    strides = eqn.params["strides"] or (1,) * len(shape)
    ranges = [*zip(eqn.params["start_indices"], eqn.params["limit_indices"], strides, strict=True)]
    cut = [i for i, size in enumerate(shape) if ranges[i] != (0, size, 1)]
    factors = _in_one(_factors(values[0]), cut)
    pieces = [
        [ranges[i]] if i in cut else [(0, size, 1) for size in factor]
        for i, factor in enumerate(factors)
    ]
    starts, limits, steps = zip(*_flat(pieces), strict=True)
    array = jax.lax.slice(_in_factors(values[0], factors), starts, limits, steps)
    out = shape_of(eqn.outvars[0])
    return [_form(array, [(out[i],) if i in cut else f for i, f in enumerate(factors)])]


@rule(Merged, "split")
def _split(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Cut a dim in one piece into runs."""
    dim, sizes = eqn.params["axis"], eqn.params["sizes"]
    factors = _in_one(_factors(values[0]), [dim])
    arrays = jax.lax.split(_in_factors(values[0], factors), sizes, _places(factors)[dim][0])
    outputs = zip(arrays, sizes, strict=True)
    return [_form(array, [*factors[:dim], (n,), *factors[dim + 1 :]]) for array, n in outputs]


@rule(Merged, "concatenate")
def _concatenate(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Join along a dim in one piece."""
    dim = eqn.params["dimension"]
    common = [*map(_common, *(_in_one(_factors(value), [dim]) for value in values))]
    arrays = []
    for value in values:
        own = (math.prod(_factors(value)[dim]),)
        arrays.append(_in_factors(value, [*common[:dim], own, *common[dim + 1 :]]))
    joined = jax.lax.concatenate(arrays, _places(common)[dim][0])
    return [
        _form(joined, [*common[:dim], (joined.shape[_places(common)[dim][0]],), *common[dim + 1 :]])
    ]


@rule(Merged, "dot_general")
def _dot_general(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Multiply with the dims of each side apart; those that the two share, if both can have them."""
    contracted, batch = eqn.params["dimension_numbers"]
    factors = [_factors(value) for value in values]
    for left, right in zip((*contracted[0], *batch[0]), (*contracted[1], *batch[1]), strict=True):
        factors[0][left] = factors[1][right] = _common(factors[0][left], factors[1][right])
    places = [*map(_places, factors)]
    numbers = tuple(
        tuple(_flat([places[side][dim] for dim in dims]) for side, dims in enumerate(pair))
        for pair in (contracted, batch)
    )
    arrays = [_in_factors(v, f) for v, f in zip(values, factors, strict=True)]
    (array,) = bind(eqn, arrays, dimension_numbers=numbers)
    free = [
        f
        for side in (0, 1)
        for i, f in enumerate(factors[side])
        if i not in (*contracted[side], *batch[side])
    ]
    return [_form(array, [*(factors[0][dim] for dim in batch[0]), *free])]


def _common(*factors: Shape) -> Shape:
    """Return the factors of a dim that all inputs can have: one piece where two of them differ.

    An input with a single element has it for all elements of the others.
    """
    apart = {f for f in factors if len(f) > 1}
    return apart.pop() if len(apart) == 1 else (max(map(math.prod, factors)),)


def _in_factors(value: Operand, factors: Sequence[Shape]) -> jax.Array:
    """Return an array with the dims of `factors`; one of a single element gets as many of these."""
    pairs = zip(_factors(value), factors, strict=True)
    sizes = [f if math.prod(own) == math.prod(f) else (1,) * len(f) for own, f in pairs]
    return _array_of(value).reshape(_flat(sizes))


def _in_one(factors: list[Shape], dims: Sequence[int]) -> list[Shape]:
    """Return factors, the dims `dims` in one piece each."""
    return [(math.prod(f),) if i in dims else f for i, f in enumerate(factors)]


def _places(factors: Sequence[Shape]) -> list[Shape]:
    """Return for each dim those of the array that it is the product of."""
    numbers = iter(range(sum(map(len, factors))))
    return [tuple(next(numbers) for _ in factor) for factor in factors]


def _factors(value: Operand) -> list[Shape]:
    """Return the sizes that each dim is the product of."""
    if isinstance(value, Merged):
        return value.factors
    return [(size,) for size in jnp.shape(whole_array(value))]


def _array_of(value: Operand) -> jax.Array:
    """Return the array of Merged, and anything else in one piece."""
    return value.array if isinstance(value, Merged) else jnp.asarray(whole_array(value))


def _form(array: jax.Array, factors: Sequence[Shape]) -> Operand:
    """Return an array with the dims of `factors`: Merged if one of them is a product."""
    counts = tuple(map(len, factors))
    return Merged(array, counts) if any(count != 1 for count in counts) else array


def _flat(runs: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the elements of all runs in one tuple."""
    return tuple(element for run in runs for element in run)
