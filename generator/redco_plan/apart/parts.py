"""A program whose fused arrays have their parts apart: q, k and v of one kernel, gate and up.

An array of several parts side by side along a dim cannot be split so that each device has its
share of every part. Here the parts are arrays of their own, until something needs them in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from .forms import ELEMENTWISE, Form, Operand, rule, whole_array
from .jaxprs import bind, shape_of


@partial(
    jax.tree_util.register_dataclass, data_fields=["arrays"], meta_fields=["dim", "whole_ones"]
)
@dataclass(frozen=True)
class Parts(Form):
    """An array that is cut along `dim` into `arrays`, two at least.

    whole_ones: of a kernel, the places of those that all devices hold.
    """

    arrays: tuple[jax.Array, ...]
    dim: int
    whole_ones: tuple[int, ...] = ()
    order: ClassVar[int] = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of each part, along the dim."""
        return tuple(array.shape[self.dim] for array in self.arrays)

    def whole(self) -> jax.Array:
        """Return the array in one piece."""
        return jnp.concatenate(self.arrays, self.dim)

    def of_layer(self) -> Parts | None:
        """Return the parts of each array that this one is a stack of; None if that is its dim."""
        return Parts(self.arrays, self.dim - 1, self.whole_ones) if self.dim else None


@partial(jax.tree_util.register_dataclass, data_fields=["array"], meta_fields=["dim"])
@dataclass(frozen=True)
class Piece(Form):
    """An array that was cut out of Parts along `dim`: like any other, until it meets its like."""

    array: jax.Array
    dim: int
    order: ClassVar[int] = 0

    def whole(self) -> jax.Array:
        """Return the array."""
        return self.array

    def of_layer(self) -> Piece | None:
        """Return the piece of each array that this one is a stack of; None if that is its dim."""
        return Piece(self.array, self.dim - 1) if self.dim else None


@rule(Piece, "concatenate")
def _concatenate(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Return the parts of pieces that come together again, in whatever order."""
    dim = eqn.params["dimension"]
    if not all(isinstance(v, Parts | Piece) and v.dim == dim for v in values):
        return None
    runs = (v.arrays if isinstance(v, Parts) else (whole_array(v),) for v in values)
    return [Parts(tuple(array for run in runs for array in run), dim)]


@rule(Parts, *ELEMENTWISE, "convert_element_type", "name", "sharding_constraint")
def _elementwise(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Take each part with the same part of the other inputs."""
    first = next(value for value in values if isinstance(value, Parts))
    if any(isinstance(v, Parts) and (v.dim, v.sizes) != (first.dim, first.sizes) for v in values):
        return None
    columns = zip(*(cut_like(first, value) for value in values), strict=True)
    outputs = zip(*(bind(eqn, column) for column in columns), strict=True)
    return [Parts(arrays, first.dim, first.whole_ones) for arrays in outputs]


@rule(Parts, "transpose")
def _transpose(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Permute the dims of each part."""
    value, order = single_parts(values[0]), eqn.params["permutation"]
    arrays = tuple(jax.lax.transpose(array, order) for array in value.arrays)
    return [Parts(arrays, order.index(value.dim))]


@rule(Parts, "broadcast_in_dim")
def _broadcast_in_dim(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Add dims to each part."""
    value, places = single_parts(values[0]), eqn.params["broadcast_dimensions"]
    dim, shape = places[value.dim], eqn.params["shape"]
    arrays = (
        jax.lax.broadcast_in_dim(array, (*shape[:dim], size, *shape[dim + 1 :]), places)
        for array, size in zip(value.arrays, value.sizes, strict=True)
    )
    return [Parts(tuple(arrays), dim)]


@rule(Parts, "squeeze")
def _squeeze(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Leave out dims of size 1, which that of the parts is not."""
    value, dims = single_parts(values[0]), eqn.params["dimensions"]
    arrays = tuple(jax.lax.squeeze(array, dims) for array in value.arrays)
    return [Parts(arrays, value.dim - sum(dim < value.dim for dim in dims))]


@rule(Parts, "reshape")
def _reshape(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Change the shape of each part, where a dim of the output begins with that of the parts.

    (B, S, 3 * F) to (B * S, 3 * F), to (B, S, 3, F), or to (B, S, 3 * N, H) of 3 * N heads.
    """
    value, shape = single_parts(values[0]), eqn.params["new_sizes"]
    before, total = math.prod(value.arrays[0].shape[: value.dim]), sum(value.sizes)
    for dim, size in enumerate(shape):
        if math.prod(shape[:dim]) == before and all(n * size % total == 0 for n in value.sizes):
            rows = (n * size // total for n in value.sizes)
            shapes = [(*shape[:dim], n, *shape[dim + 1 :]) for n in rows]
            pairs = zip(value.arrays, shapes, strict=True)
            return [Parts(tuple(array.reshape(new) for array, new in pairs), dim)]
    return None


@rule(Parts, "slice")
def _slice(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Cut out of each part what is in the range."""
    value, start, limit = (
        single_parts(values[0]),
        eqn.params["start_indices"],
        eqn.params["limit_indices"],
    )
    strides = eqn.params["strides"] or [1] * len(start)
    if strides[value.dim] != 1 or start[value.dim] == limit[value.dim]:
        return None
    cut = _cut(value, start[value.dim], limit[value.dim])
    arrays = cut.arrays if isinstance(cut, Parts) else [whole_array(cut)]
    low, high = list(start), list(limit)
    pieces = []
    for array in arrays:
        low[value.dim], high[value.dim] = 0, array.shape[value.dim]
        pieces.append(jax.lax.slice(array, low, high, strides))
    return [_unless_one(pieces, value.dim)]


@rule(Parts, "split")
def _split(eqn: JaxprEqn, values: list[Operand]) -> list[Operand]:
    """Cut into ranges of the parts, or along another dim."""
    value, sizes, dim = single_parts(values[0]), eqn.params["sizes"], eqn.params["axis"]
    if dim != value.dim:
        columns = (jax.lax.split(array, sizes, dim) for array in value.arrays)
        return [Parts(arrays, value.dim) for arrays in zip(*columns, strict=True)]
    stops = [int(stop) for stop in accumulate(sizes)]
    return [_cut(value, a, b) for a, b in zip([0, *stops], stops, strict=False)]


@rule(Parts, "unstack")
def _unstack(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Return one part after the other, where each is one element of the dim."""
    value, dim = single_parts(values[0]), eqn.params["axis"]
    if dim != value.dim or {*value.sizes} != {1}:
        return None
    return [jax.lax.squeeze(array, [dim]) for array in value.arrays]


@rule(Parts, "dot_general")
def _dot_general(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Multiply each part by the other operand, where their dim is one of the output."""
    side = next(i for i, value in enumerate(values) if isinstance(value, Parts))
    value, other = single_parts(values[side]), whole_array(values[1 - side])
    contracted, batch = eqn.params["dimension_numbers"]
    paired = [{*contracted[i], *batch[i]} for i in (0, 1)]
    if value.dim in paired[side]:
        return None
    free = [
        [dim for dim in range(len(shape_of(atom))) if dim not in dims]
        for atom, dims in zip(eqn.invars, paired, strict=True)
    ]
    dim = len(batch[0]) + free[side].index(value.dim) + (len(free[0]) if side else 0)

    # In a call of its own, whose gradient sums over the parts before anything else is added: the
    # compiler then makes one all-reduce of them (gpt2 and fused of tests/compiled, for H100). The
    # gradient adds the last product first, and what is whole comes after the all-reduce.
    order = sorted(range(len(value.arrays)), key=lambda i: i not in value.whole_ones)

    @jax.jit
    def products(other: jax.Array, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        pairs = [(array, other) if side == 0 else (other, array) for array in arrays]
        by_place = {i: bind(eqn, pairs[i])[0] for i in order}
        return tuple(by_place[i] for i in range(len(arrays)))

    return [Parts(products(other, *value.arrays), dim)]


@rule(Parts, "conv_general_dilated")
def _convolution(eqn: JaxprEqn, values: list[Operand]) -> list[Operand] | None:
    """Make the channels of each part, of all channels, or each of its own (depthwise)."""
    numbers, groups = eqn.params["dimension_numbers"], eqn.params["feature_group_count"]
    image, kernel = values
    channels, filters = numbers.lhs_spec[1], numbers.rhs_spec[0]
    depthwise = groups == shape_of(eqn.invars[0])[channels] == shape_of(eqn.invars[1])[filters]
    if groups == 1 and isinstance(kernel, Parts) and kernel.dim == filters:
        pairs = [(whole_array(image), array) for array in kernel.arrays]
    elif depthwise and isinstance(image, Parts) and image.dim == channels:
        pairs = list(zip(image.arrays, cut_like(image, kernel, filters), strict=True))
    elif depthwise and isinstance(kernel, Parts) and kernel.dim == filters:
        pairs = list(zip(cut_like(kernel, image, channels), kernel.arrays, strict=True))
    else:
        return None
    arrays = (
        bind(eqn, pair, feature_group_count=pair[1].shape[filters] if depthwise else 1)[0]
        for pair in pairs
    )
    return [Parts(tuple(arrays), numbers.out_spec[1])]


def single_parts(value: Operand) -> Parts:
    """Return the input of a rule that has a single one, or one of a kind: it is Parts."""
    assert isinstance(value, Parts)
    return value


def _unless_one(arrays: Sequence[jax.Array], dim: int) -> Operand:
    """Return Parts, but a single part as a piece."""
    return Parts(tuple(arrays), dim) if len(arrays) > 1 else Piece(arrays[0], dim)


def _cut(value: Parts, start: int, stop: int) -> Operand:
    """Return a range of the dim of the parts: what of each is in it, or an empty array."""
    arrays, offset = [], 0
    for array, size in zip(value.arrays, value.sizes, strict=True):
        low, high = max(start - offset, 0), min(stop - offset, size)
        if high - low == size:
            arrays.append(array)
        elif low < high:
            arrays.append(jax.lax.slice_in_dim(array, low, high, axis=value.dim))
        offset += size
    if not arrays:
        return jax.lax.slice_in_dim(value.arrays[0], 0, 0, axis=value.dim)
    return _unless_one(arrays, value.dim)


def cut_like(first: Parts, value: Operand, dim: int | None = None) -> Sequence[jax.Array]:
    """Return what goes with each part of `first`: of a dim of `value`, the same one by default.

    An array that has one element there, or no dims, goes with all of them.
    """
    dim = first.dim if dim is None else dim
    if isinstance(value, Parts) and (value.dim, value.sizes) == (dim, first.sizes):
        return value.arrays
    array = whole_array(value)
    if not jnp.ndim(array) or array.shape[dim] == 1:
        return [array] * len(first.arrays)
    stops = list(accumulate(first.sizes))
    pairs = zip([0, *stops], stops, strict=False)
    return [jax.lax.slice_in_dim(array, start, stop, axis=dim) for start, stop in pairs]
