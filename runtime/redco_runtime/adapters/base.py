"""The model that an adapter is of, beside it: of the same arrays, and of no others."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

Model = TypeVar("Model", bound=nnx.Module)


def without_adapter(model: Model) -> Model:
    """Return what computes as a model does whose adapter is switched off: it adds zeros.

    It has no parameters of its own, and those that are trained get no gradient through it.
    """
    graph, *parts = nnx.split(model, nnx.LoRAParam, ...)
    adapter, rest = parts
    off: Model = nnx.merge(graph, jax.tree.map(jnp.zeros_like, adapter), rest)
    return off
