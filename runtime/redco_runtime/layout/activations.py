"""Where the activations lie that a model names."""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec as P

from ..base.messages import UserError
from .mesh import axes_of, free_axes

_TABLE: ContextVar[Mapping[str, P] | None] = ContextVar("activations", default=None)


@contextmanager
def layouts(table: Mapping[str, P]) -> Iterator[None]:
    """Make `lay_out` follow `table` within it: name of an activation -> spec, on the mesh in place."""
    token = _TABLE.set(table)
    try:
        yield
    finally:
        _TABLE.reset(token)


def lay_out(x: jax.Array, name: str) -> jax.Array:
    """Return `x`, laid out by its name in the table in place; as it is where there is no table.

    A dim that its axes do not divide stays whole, such as one token where a sequence is split.
    Raises UserError if the table does not have the name. The name is one by which `remat` saves
    arrays.
    """
    x = checkpoint_name(x, name)
    if _TABLE.get() is None:
        return x
    return jax.lax.with_sharding_constraint(x, spec_of(x.shape, name))


def axes_run_over(name: str, dim: int) -> tuple[str, ...]:
    """Return the axes that a shard_map runs over, of those that split a dim of an activation."""
    table, manual = _TABLE.get() or {}, jax.sharding.get_abstract_mesh().manual_axes
    return tuple(axis for axis in axes_of(table[name][dim]) if axis in manual) if table else ()


def spec_of(shape: tuple[int, ...], name: str, axes: Collection[str] = ()) -> P:
    """Return the spec of an activation in the table in place, of `axes` alone if given; all whole where there is no table.

    A dim that its axes do not divide is whole; axes that a shard_map runs over split no more.
    Raises UserError if the table does not have the name.
    """
    table = _TABLE.get()
    if table is None:
        return P(*(None for _ in shape))
    if name not in table:
        raise UserError(f"sharding.py: the activation {name} has no spec in ACTIVATIONS: add it")
    sizes = {axis: n for axis, n in free_axes().items() if axis in (axes or (axis,))}

    def fitting(size: int, entry: Any) -> Any:
        if entry is P.UNCONSTRAINED:
            return entry
        axes = tuple(axis for axis in axes_of(entry) if axis in sizes)
        return axes if axes and size % math.prod(sizes[axis] for axis in axes) == 0 else None

    return P(*(fitting(*pair) for pair in zip(shape, table[name], strict=True)))
