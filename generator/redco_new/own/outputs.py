"""The output of a class that is trained, among the arrays that a call gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np
from jax.tree_util import keystr

from redco_new.errors import RedcoError
from redco_new.own.build import ROWS, AbstractModel, Path
from redco_new.own.recipes import OwnRecipe
from redco_new.own.roles import id_sequences
from redco_new.own.wrapper import print_wrapper

LOGITS = "logits"  # what classes call them, among outputs that have names
# How many outputs a message lists: a cache has two for each layer.
LISTED = 6


@dataclass(frozen=True)
class Output:
    """The output of a class that is trained.

    source: Python that takes it out of what a call gives, such as "['logits']"
    shape: with ROWS rows
    """

    source: str
    shape: tuple[int, ...]


def find_output(recipe: OwnRecipe, model: AbstractModel, wanted: str) -> Output:
    """Return what `wanted` names of what a call gives; where it is "", the only output that fits.

    Raises RedcoError where there is none, or more than one.
    """
    outputs, shape = model.outputs, _needed_shape(recipe, model)
    fitting = [path for path, leaf in outputs.items() if _fits_recipe(recipe, model, leaf)]
    makes = f"of {ROWS} rows, {model.name} makes {_listing(outputs)}"
    if wanted:
        chosen = [path for path in fitting if _label(path) == wanted]
        if not chosen:
            what = f"{wanted!r} is not {shape}: {makes}"
            raise RedcoError("output", what, "name another one, or choose another recipe")
    else:
        chosen = _likeliest(recipe, model, fitting)
    where = f"--recipe {recipe.name}"
    if not chosen:
        todo = "choose another recipe"
        if not any(leaf.shape[:1] == (ROWS,) for leaf in outputs.values()):
            call = model.call
            todo = print_wrapper(model.reference, call.method, model.arguments, [*call.arguments])
        raise RedcoError(where, f"{makes}, and no {shape}", todo)
    if len(chosen) > 1:
        labels = " or ".join(f'"{_label(path)}"' for path in chosen)
        what = f"{makes}, and more than one of them can be {shape}"
        raise RedcoError(where, what, f"give output = {labels} in a file of --config")
    return Output(keystr(chosen[0]), tuple(outputs[chosen[0]].shape))


def _fits_recipe(recipe: OwnRecipe, model: AbstractModel, leaf: jax.ShapeDtypeStruct) -> bool:
    """Return whether an output can be the one that a recipe is about."""
    return (
        (np.issubdtype(leaf.dtype, np.inexact) or leaf.dtype == "bfloat16")
        and leaf.shape[:1] == (ROWS,)
        and recipe.rank in (0, len(leaf.shape))
        and (not recipe.ids or leaf.shape[1] in _lengths(model))
    )


def _likeliest(recipe: OwnRecipe, model: AbstractModel, fitting: list[Path]) -> list[Path]:
    """Return those of the outputs that fit that are the likeliest, by name and by number of words."""
    if not recipe.rank:
        return fitting
    chosen = [path for path in fitting if _label(path).split("/")[-1] == LOGITS] or fitting
    if recipe.ids:
        chosen = _of_words(model, chosen)
    return [path for path in chosen if _label(path).endswith(LOGITS)] or chosen


def _of_words(model: AbstractModel, paths: list[Path]) -> list[Path]:
    """Return the outputs that are of as many words as a table of ids has; none that is of its width.

    A table may be padded: where no output is as large, the others may be of words too.
    """
    tables = [t for name in id_sequences(model) for t in model.uses[name].tables if t.origin]
    words, widths = {table.rows for table in tables}, {table.width for table in tables}
    sizes = {path: model.outputs[path].shape[-1] for path in paths}
    hidden = {width for width in widths if width < min(words)}
    return [p for p in paths if sizes[p] in words] or [p for p in paths if sizes[p] not in hidden]


def _lengths(model: AbstractModel) -> list[int]:
    """Return the lengths that ids have."""
    return sorted({model.inputs[name].shape[0] for name in id_sequences(model)})


def _needed_shape(recipe: OwnRecipe, model: AbstractModel) -> str:
    """Return what a recipe needs, for people, with the lengths that ids have."""
    lengths = " or ".join(map(str, _lengths(model)))
    if not (recipe.ids and lengths):
        return recipe.output
    return recipe.output.replace("(B, S,", f"(B, {lengths},").replace("(B, T,", f"(B, {lengths},")


def _label(path: Path) -> str:
    """Return the name of an output, as the user gives it: "logits", "0", "heads/tone"."""
    return keystr(path, simple=True, separator="/")


def _listing(outputs: Mapping[Path, jax.ShapeDtypeStruct]) -> str:
    """Return the outputs with their shapes, for people: those with B first."""
    ordered = sorted(outputs.items(), key=lambda item: item[1].shape[:1] != (ROWS,))
    texts = [f"{_label(path) or 'an array'} {leaf.shape}" for path, leaf in ordered]
    more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
    return ", ".join(texts[:LISTED]) + more if texts else "no arrays"
