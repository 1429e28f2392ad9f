"""Model -> abstract parameters and the jaxpr of its computation: no weights, no devices."""

from __future__ import annotations

import linecache
import site
import sysconfig
import traceback
from pathlib import Path
import jax
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
import numpy as np
from jax.extend.core import ClosedJaxpr

INSTALLED = tuple(
    {*site.getsitepackages(), *map(sysconfig.get_path, ("purelib", "platlib", "stdlib"))}
)


OURS = f"{Path(__file__).parents[1]}/"


ADVICE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (
        (jax.errors.TracerBoolConversionError, jax.errors.ConcretizationTypeError),
        "the value is known only when the model runs, and Python must know it before: use "
        "jnp.where or jax.lax.cond for a branch, jax.lax.while_loop for a loop, and a static "
        "shape for a size",
    ),
    (
        (jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError),
        "the array is abstract here: use jax.numpy instead of numpy, and no array as an index "
        "or a size in Python",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "the number of rows that a mask picks is not known before the model runs: use jnp.where "
        "or multiply by the mask",
    ),
    (
        (KeyError, AttributeError),
        "the model reads something that the batch or the parameters do not have: add it to them, "
        "or do not read it",
    ),
)


ANYTHING = "the model must run on abstract arrays of these shapes: fix the line, or the shapes"


class ShardingError(ValueError):
    """The model cannot be laid out; the message says where, why, and what to do."""


def explain(error: Exception) -> str:
    """The message: the user's line, the error in one line, and what to do."""
    what = f"the model cannot be traced: {say(error)}"
    return f"{place(error)}: {what}\n  what to do: {advise(error)}"


def advise(error: Exception) -> str:
    """What to do about a model that raises `error` while it is traced."""
    return next((text for kinds, text in ADVICE if isinstance(error, kinds)), ANYTHING)


def say(error: BaseException) -> str:
    """The kind of the error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


def place(error: BaseException, nowhere: str = "the model") -> str:
    """`file:line in function: source` of the last line of the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith((*INSTALLED, OURS, "<"))]
    if not own:
        return nowhere
    frame = own[-1]
    text = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{frame.filename}:{frame.lineno} in {frame.name}: `{text}`"


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
