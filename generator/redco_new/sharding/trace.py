"""Model -> abstract parameters and the jaxpr of its computation: no weights, no devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from redco_new.sharding.untraceable import ShardingError, explain


@dataclass(frozen=True)
class Parameter:
    """One leaf of the parameter tree; `path` joins its keys by "/"."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def bytes(self) -> int:
        """Size of the whole parameter, in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Traced:
    """A traced forward pass.

    jaxpr: its inputs are the leaves of the parameters, then the leaves of the batch.
    parameters: in the order of the jaxpr's inputs.
    treedef, outputs: the structures of the parameter tree, and of what the function returns.
    """

    jaxpr: ClosedJaxpr
    parameters: tuple[Parameter, ...]
    treedef: jax.tree_util.PyTreeDef
    outputs: jax.tree_util.PyTreeDef


def trace(forward: Callable[[Any, Any], Any], params: Any, batch: Any) -> Traced:
    """Trace `forward(params, batch)`; both may hold arrays or ShapeDtypeStructs.

    Raises ShardingError, which names the line of the model that cannot be traced.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    parameters = tuple(parameter(path_string(path), leaf) for path, leaf in leaves)
    try:
        with jax.disable_jit(False):  # whatever JAX_DISABLE_JIT says: it would unroll each scan
            jaxpr, made = jax.make_jaxpr(forward, return_shape=True)(params, batch)
    except Exception as error:  # the model's own code may raise anything
        raise ShardingError(explain(error)) from error
    return Traced(jaxpr, parameters, treedef, jax.tree.structure(made))


def parameter(path: str, leaf: Any) -> Parameter:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise ShardingError(
            f"parameter {path} is a {type(leaf).__name__}, not an array: pass arrays or "
            "jax.ShapeDtypeStructs only"
        )
    return Parameter(path, tuple(leaf.shape), np.dtype(leaf.dtype))


def path_string(path: tuple[Any, ...]) -> str:
    """A key path as text: `layers/attn/q/kernel`. The `.value` of an NNX variable is left out."""
    parts = [str(getattr(k, "key", getattr(k, "idx", getattr(k, "name", k)))) for k in path]
    if len(parts) > 1 and isinstance(path[-1], jax.tree_util.GetAttrKey) and parts[-1] == "value":
        parts.pop()
    return "/".join(parts)
