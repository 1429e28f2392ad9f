"""What a model holds besides its parameters: variables, which steps carry on, and random streams."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ..base.state import PyTree

APART = 1 << 31  # no count that nnx.Rngs(key) comes to, so that its keys are others


def _count_as_array(tracer: type) -> None:
    """Tell Flax that a kind of tracer is an array, which it sees by itself from Python 3.12 on."""
    nnx.register_data_type(tracer)
    kinds: list[type] = tracer.__subclasses__()
    for kind in kinds:
        _count_as_array(kind)


# Before a model is made: an array that it holds as it is, such as a table of angles, would be a
# tracer in its graph, which is static.
_count_as_array(jax.core.Tracer)


_set_value = nnx.Variable.set_value


def _put_whole(variable: nnx.Variable[Any], value: Any, **at: Any) -> None:
    """Put `value` for a variable, x[...] = value, as Flax does; of a tracer, without a look at its sharding.

    JAX walks all that was traced before to say that a tracer has none: at each draw of nnx.Rngs, and of each BatchNorm.
    """
    whole = isinstance(value, jax.core.Tracer) and at.get("index") is Ellipsis
    if whole and (value.shape, value.dtype) == (variable.shape, variable.dtype):
        at = {}
    _set_value(variable, value, **at)


nnx.Variable.set_value = _put_whole  # type: ignore[assignment, method-assign]


def parts_of(make: Callable[[], nnx.Module]) -> tuple[Any, ...]:
    """Return (graph, parameters, random streams, variables) of make(), of ShapeDtypeStructs.

    Taken apart while it is traced: arrays of a module that is no pytree are part of its graph later.
    """
    graphs: list[Any] = []

    def trace() -> Any:
        graph, *states = nnx.split(make(), nnx.Param, nnx.RngState, ...)
        graphs.append(graph)
        return states

    states = jax.eval_shape(trace)
    return graphs[0], *states


def variables_of(model: nnx.Module) -> PyTree:
    """Return running statistics and the like, as a nested dict; {} where there are none."""
    others = nnx.Any(nnx.Param, nnx.RngState, nnx.Intermediate)
    return nnx.to_pure_dict(nnx.state(model, nnx.Not(others)))


def streams(random: nnx.State, key: jax.Array) -> PyTree:
    """Return the random streams of a model, anew, as a nested dict: all follow from `key`.

    random: the model's nnx.RngState, of arrays or ShapeDtypeStructs.
    """
    leaves, structure = jax.tree.flatten(nnx.to_pure_dict(random))
    keys = jax.random.split(jax.random.fold_in(key, APART), len(leaves))

    def renew(leaf: jax.Array, key: jax.Array) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(key, leaf.shape) if leaf.shape else key
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.unflatten(structure, map(renew, leaves, keys))
