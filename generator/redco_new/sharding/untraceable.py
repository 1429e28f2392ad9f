"""What to tell a user whose model cannot be traced: the line, what is wrong, what to do."""

from __future__ import annotations

import linecache
import site
import sysconfig
import traceback
from pathlib import Path

import jax

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
