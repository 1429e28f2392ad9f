"""What made-up examples have in each input: ids below a bound, numbers, or the same array in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.own.build import AbstractModel
from redco_new.own.outputs import Output, no_texts
from redco_new.own.recipes import OwnRecipe
from redco_new.own.roles import Role, id_sequences, input_role, is_whole, text_inputs
from redco_new.own.flows import Use

BYTE_VALUES = 256  # of uint8: how many ids an input of bytes may have, where nothing else is said
PRINTED = 8  # numbers of an array that are printed one by one, in a line


@dataclass(frozen=True)
class Content:
    """What made-up examples have in an input.

    kind: "ids" below a bound, "numbers", or "same": the same array in all
    below: of ids
    array: of "same", Python; "" for that of the user's function
    counts: whether it tells for each position of a text whether it counts: "" for no, "ones", "zeros"
    """

    kind: Literal["ids", "numbers", "same"]
    below: int = 0
    array: str = ""
    counts: Literal["", "ones", "zeros"] = ""


def find_contents(
    recipe: OwnRecipe, model: AbstractModel, output: Output, where: str
) -> dict[str, Content]:
    """Return what made-up examples have in each input of a class.

    where: what gave the inputs

    Raises RedcoError for inputs that the recipe cannot train, and for ids of unknown number.
    """
    texts = text_inputs(model, recipe.ids, output.shape[-1])
    _check_texts(recipe, model, output, texts)
    words = output.shape[-1] if recipe.ids else None
    contents = {}
    for name, x in model.inputs.items():
        role = input_role(x, model.uses[name])
        if role == "ids" and _indexes_positions(model, name, texts):
            role = "positions"
        if role == "ids" and (name in texts or not recipe.ids):
            below = _count_ids(name, x, model.uses[name], words, where)
            contents[name] = Content("ids", below)
        elif role == "numbers" and not (recipe.ids and _varies(x)):
            contents[name] = Content("numbers")
        else:
            length = model.inputs[texts[-1]].shape[0] if texts else 0
            contents[name] = _same(name, x, role, model.uses[name], length, where)
    return contents


def _check_texts(recipe: OwnRecipe, model: AbstractModel, output: Output, texts: list[str]) -> None:
    """Raise RedcoError where a recipe of texts has too few inputs, or logits of other positions."""
    if len(texts) < recipe.ids:
        raise no_texts(recipe, model.name, len(texts))
    if texts and output.shape[1] != model.inputs[texts[-1]].shape[0]:
        what = f"the logits {output.shape} are not of the positions of {texts[-1]}"
        todo = "choose another output, or another recipe"
        raise RedcoError(f"--recipe {recipe.name}", what, todo)


def _indexes_positions(model: AbstractModel, name: str, texts: list[str]) -> bool:
    """Return whether ids are positions: of a table that is long enough, beside ids of another one."""
    x, tables = model.inputs[name], model.uses[name].tables
    if name in texts or x.below or not x.shape:
        return False
    beside = texts or [n for n in id_sequences(model) if model.inputs[n].shape == x.shape][:1]
    origins = {t.origin for n in beside for t in model.uses[n].tables}
    own = [table for table in tables if table.origin]
    return name not in beside and any(
        table.rows >= max(x.shape) and table.origin not in origins for table in own
    )


def _count_ids(name: str, x: Input, use: Use, words: int | None, where: str) -> int:
    """Return how many ids an input may have. Raises RedcoError where that is not clear.

    words: those of the logits, if it is a text
    """
    rows = [t.rows for t in use.tables if t.origin] or [table.rows for table in use.tables]
    largest = None if x.value is None else int(x.value.max(initial=0)) + 1
    highest = (x.below or largest or 1) - 1
    if rows and highest >= min(rows):
        what = f"{name} has ids up to {highest}, and indexes {min(rows)} rows"
        raise RedcoError(f"{where}: [inputs] {name}", what, "give lower ones, or a larger table")
    if x.below or rows:
        below = x.below or min(rows)
        below = min(below, words) if words else below
    else:
        several = largest if largest and largest > 1 else None
        below = several or words or (BYTE_VALUES if x.dtype == "uint8" else 0)
    if below < (2 if words else 1):
        what = f"how many ids {name} may have is not known"
        todo = "add below = 1000, say: ids are less than that"
        if x.value is not None:
            what, todo = f"{what}: all are {x.value.max(initial=0)}", "give the largest one too"
        raise RedcoError(f"{where}: [inputs] {name}", what, todo)
    return below


def _varies(x: Input) -> bool:
    """Return whether the user gave an array that is more than a shape."""
    return x.value is not None and np.unique(x.value).size > 1


def _is_usable(value: np.ndarray, role: Role, use: Use) -> bool:
    """Return whether an array of the user's is more than a shape: zeros are none, but of ids."""
    if role == "mask":
        return bool(not value.all() if use.hides else value.any())
    return role in ("ids", "numbers") or not value.shape or bool(value.any())


def _same(name: str, x: Input, role: Role, use: Use, length: int, where: str) -> Content:
    """Return the array that all examples have: the user's, or where that is but a shape, ours.

    length: of the text, 0 if there is none
    """
    counts: Literal["", "ones", "zeros"] = ""
    if role == "mask" and x.shape == (length,):
        counts = "zeros" if use.hides else "ones"
    if x.value is not None and _is_usable(x.value, role, use):
        return Content("same", array=print_array(x.value), counts=counts)
    if role == "positions" and not x.shape and x.value is None:
        what = f"how large {name} may be is not known"
        todo = "add below = 1000, say: it is less than that"
        raise RedcoError(f"{where}: [inputs] {name}", what, todo)
    return Content("same", array=_made_array(x, role, use, length), counts=counts)


def _made_array(x: Input, role: Role, use: Use, length: int) -> str:
    """Return Python that makes the array of an input: nothing is padded, all is one segment."""
    shape, dtype, size = x.shape, dtype_source(x), _shape_source(x.shape)
    if role == "positions" and shape:
        longest = max(range(len(shape)), key=lambda dim: shape[dim])
        counting = f"np.arange({shape[longest]}, dtype={dtype})"
        if len(shape) == 1:
            return counting
        along = tuple(-1 if dim == longest else 1 for dim in range(len(shape)))
        return f"np.broadcast_to({counting}.reshape{along}, {shape})"
    if role == "length":
        return f"np.full({size}, {use.length}, {dtype})"
    if role == "mask" and length and shape[-2:] == (length, length):  # a text is read in its order
        ones = f"np.ones({size}, {dtype})"
        return f"np.triu({ones}, 1)" if use.hides else f"np.tril({ones})"
    shows = role in ("mask", "segments") and not use.hides
    return f"np.{'ones' if shows else 'zeros'}({size}, {dtype})"


def print_array(value: np.ndarray) -> str:
    """Return Python that makes an array: "" where it has no pattern and many numbers."""
    x = Input(value.shape, str(value.dtype))
    size, dtype = _shape_source(x.shape), dtype_source(x)
    first = value.flat[0] if value.size else 0
    if (value == first).all():
        if first in (0, 1):
            return f"np.{'ones' if first else 'zeros'}({size}, {dtype})"
        return f"np.full({size}, {first}, {dtype})"
    if value.ndim == 1 and is_whole(x) and (np.diff(value.astype(np.int64)) == 1).all():
        start = f"{first}, " if first else ""
        return f"np.arange({start}{first + value.size}, dtype={dtype})"
    if value.ndim > 1 and np.array_equal(value, np.tril(np.ones_like(value))):
        return f"np.tril(np.ones({size}, {dtype}))"
    return f"np.array({value.tolist()}, {dtype})" if value.size <= PRINTED else ""


def _shape_source(shape: tuple[int, ...]) -> str:
    """Return a shape as people write it: of one dim, its size."""
    return str(shape[0] if len(shape) == 1 else shape)


def dtype_source(x: Input) -> str:
    """Return the dtype of an input as Python, which numpy alone lacks for bfloat16."""
    names = {"bfloat16": "jnp.bfloat16", "bool": "bool"}
    return names.get(x.dtype, f"np.{x.dtype}")
