"""The output of a class that is trained, among the arrays that a call gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.tree_util import keystr

from redco_new.errors import RedcoError
from redco_new.own.build import ROWS, AbstractModel
from redco_new.own.module import Path
from redco_new.own.recipes import OwnRecipe
from redco_new.own.roles import id_sequences, is_whole
from redco_new.request.own_class import Input
from redco_new.own.wrapper import print_wrapper

LOGITS = "logits"  # what classes call them, among outputs that have names
# How many outputs a message lists: a cache has two for each layer.
LISTED = 6
OTHERS = (
    "choose another recipe; regress takes any numbers, and its pipeline.py has the loss to change"
)
ROW_BY_ROW = "return what each row is by itself, and compare rows in `loss` of pipeline.py"
Outputs = Mapping[Path, jax.ShapeDtypeStruct]


class Untrained(RedcoError):
    """A class that no way to print it makes one that a recipe trains."""


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
    lengths = _lengths(model)
    fitting = [path for path, leaf in outputs.items() if _fits_recipe(recipe, lengths, leaf)]
    if fitting and {*fitting} <= model.across:
        label = _label(fitting[0]) or "an array"
        what = (
            f"{model.name} makes {label} of which two dims are B: it compares each row with others"
        )
        raise RedcoError(f"--recipe {recipe.name}", what, ROW_BY_ROW)
    fitting = [path for path in fitting if path not in model.across]
    makes = _listing(model.name, outputs)
    if wanted:
        chosen = [path for path in fitting if _label(path) == wanted]
        if not chosen:
            what = f"{wanted!r} is not {shape}: {makes}"
            raise RedcoError("output", what, "name another one, or choose another recipe")
    else:
        chosen = _likeliest(recipe, model, fitting)
    where = f"--recipe {recipe.name}"
    if not chosen:
        todo = OTHERS
        if not any(leaf.shape[:1] == (ROWS,) for leaf in outputs.values()):
            call = model.call
            todo = print_wrapper(model.reference, call.method, model.arguments, [*call.arguments])
        raise RedcoError(where, f"{makes}, and no {shape}", todo)
    if len(chosen) > 1:
        labels = " or ".join(f'"{_label(path)}"' for path in chosen)
        what = f"{makes}, and more than one of them can be {shape}"
        raise RedcoError(where, what, f"give output = {labels} in a file of --config")
    return Output(keystr(chosen[0]), tuple(outputs[chosen[0]].shape))


def check_outputs(
    recipe: OwnRecipe, name: str, inputs: Mapping[str, Input], outputs: Outputs
) -> None:
    """Raise Untrained where no output can be one that a recipe is about: it is asked before a class is printed, which takes a minute."""
    lengths = [x.shape[0] for x in inputs.values() if len(x.shape) == 1 and is_whole(x)]
    if len(lengths) < recipe.ids:
        raise no_texts(recipe, name, len(lengths))
    if not any(_fits_recipe(recipe, lengths, leaf) for leaf in outputs.values()):
        what = f"{_listing(name, outputs)}, and no {recipe.output}"
        raise Untrained(f"--recipe {recipe.name}", what, OTHERS)


def no_texts(recipe: OwnRecipe, name: str, count: int) -> RedcoError:
    """Return the error for a class that has fewer inputs of ids than a recipe needs."""
    what = f"{name} has {count} inputs of ids, of shape (B, S) and int32"
    todo = f"it needs {recipe.ids}; choose another recipe"
    return Untrained(f"--recipe {recipe.name}", what, todo)


def _fits_recipe(recipe: OwnRecipe, lengths: Sequence[int], leaf: jax.ShapeDtypeStruct) -> bool:
    """Return whether an output can be the one that a recipe is about. lengths: of ids"""
    return (
        (np.issubdtype(leaf.dtype, np.inexact) or leaf.dtype == "bfloat16")
        and leaf.shape[:1] == (ROWS,)
        and recipe.rank in (0, len(leaf.shape))
        and (not recipe.ids or leaf.shape[1] in lengths)
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


def _listing(name: str, outputs: Outputs) -> str:
    """Return what a class makes with its shapes, for people: those with B first."""
    ordered = sorted(outputs.items(), key=lambda item: item[1].shape[:1] != (ROWS,))
    texts = [f"{_label(path) or 'an array'} {leaf.shape}" for path, leaf in ordered]
    more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
    every = ", ".join(texts[:LISTED]) + more if texts else "no arrays"
    return f"of {ROWS} rows, {name} makes {every}"
