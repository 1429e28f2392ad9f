"""Model -> the jaxpr of its computation, without weights or devices; or what is wrong with it."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr

from redco_plan.apart.run import path_name
from redco_plan.frames import owner_of

Tree = Any  # of arrays or ShapeDtypeStructs
Forward = Callable[[Tree, Tree], Tree]  # (params, batch) -> outputs

# The first entry that an error is an instance of says what to do about it.
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


OTHER_ADVICE = "the model must run on abstract arrays of these shapes: fix the line, or the shapes"


class ShardingError(ValueError):
    """The error of a model that cannot be laid out: its message says where, why, what to do."""


@dataclass(frozen=True)
class Parameter:
    """One leaf of the parameter tree.

    path: its keys, joined by "/".
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def bytes(self) -> int:
        """Size of the whole parameter, in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Program:
    """The computation of a forward pass.

    jaxpr: its inputs are the leaves of the parameters, then the leaves of the batch.
    parameters: in the order of the jaxpr's inputs.
    treedef: the structure of the parameter tree.
    outputs: the structure of what the forward pass returns.
    """

    jaxpr: ClosedJaxpr
    parameters: tuple[Parameter, ...]
    treedef: jax.tree_util.PyTreeDef
    outputs: jax.tree_util.PyTreeDef


def trace(forward: Forward, params: Tree, batch: Tree) -> Program:
    """Trace `forward(params, batch)`, trees of arrays or ShapeDtypeStructs.

    Raises ShardingError, which names the line of the model that cannot be traced.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(params)
    parameters = tuple(_parameter(path_name(path), leaf) for path, leaf in leaves)
    try:
        # Whatever JAX_DISABLE_JIT says: without jit, each scan would be unrolled.
        with jax.disable_jit(False):
            jaxpr, shapes = jax.make_jaxpr(forward, return_shape=True)(params, batch)
    except Exception as error:  # the model's own code may raise anything
        raise ShardingError(_untraceable(error)) from error
    return Program(jaxpr, parameters, treedef, jax.tree.structure(shapes))


def _parameter(path: str, leaf: Any) -> Parameter:
    """Return the parameter of a leaf. Raises ShardingError if the leaf is not an array."""
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise ShardingError(
            f"parameter {path} is a {type(leaf).__name__}, not an array: pass arrays or "
            "jax.ShapeDtypeStructs only"
        )
    return Parameter(path, tuple(leaf.shape), np.dtype(leaf.dtype))


def _untraceable(error: Exception) -> str:
    """Return the user's line, the error in one line, and what to do."""
    what = f"the model cannot be traced: {error_message(error)}"
    return f"{error_location(error)}: {what}\n  what to do: {error_advice(error)}"


def error_advice(error: Exception) -> str:
    """Return what to do about a model that raises `error` while it is traced."""
    if isinstance(error, ModuleNotFoundError):
        return install_advice(error)
    return next((text for kinds, text in ADVICE if isinstance(error, kinds)), OTHER_ADVICE)


def error_message(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"


def install_advice(error: ModuleNotFoundError) -> str:
    """Return what to do about a module that is missing."""
    package = (error.name or "").partition(".")[0]
    if not package or package in sys.modules:  # it is here, and lacks that part
        return "mend that line, or install the version of it that has that"
    return f"pip install {package} where redco-new is"


def error_location(error: BaseException, nowhere: str = "the model") -> str:
    """Return `file:line in function: source` of the last line of the user's own code.

    Where that called a package that has the class, or part of it, the last line of that comes first.

    nowhere: what to return if no line of the traceback is of either.
    """
    last: dict[str, str] = {}
    for frame in traceback.extract_tb(error.__traceback__):
        owner = owner_of(frame.filename)
        text = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if owner == "user":
            last.pop("package", None)  # it has called back
        last[owner] = f"{frame.filename}:{frame.lineno} in {frame.name}: `{text}`"
    lines = [last[owner] for owner in ("package", "user") if owner in last]
    return ", from ".join(lines) or nowhere
