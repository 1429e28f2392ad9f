"""How a class of the user's is trained: which of its outputs is meant, and what is learned of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.own.build import ROWS, Made
from redco_new.models.recipes import TINY_TEXT

TINY = {section: TINY_TEXT[section] for section in ("optimizer", "train")}


@dataclass(frozen=True)
class OwnRecipe:
    """A file of templates/own.

    output: what the class gives, for people.  rank: of it, with B; 0 for any.
    ids: how many inputs of whole numbers (B, S) it needs.  target: array of the batch to learn.
    """

    name: str
    output: str
    rank: int = 0
    ids: int = 0
    target: str = ""


RECIPES = {
    recipe.name: recipe
    for recipe in (
        OwnRecipe("classify", "logits of shape (B, classes)", rank=2, target="label"),
        OwnRecipe("regress", "numbers", target="target"),
        OwnRecipe("lm", "logits of shape (B, S, words)", rank=3, ids=1),
        OwnRecipe("seq2seq", "logits of shape (B, T, words)", rank=3, ids=2),
    )
}


@dataclass(frozen=True)
class Output:
    """The output of a class that is trained. source: Python that takes it out of what a call gives.

    shape: with ROWS rows.
    """

    source: str
    shape: tuple[int, ...]


def find_recipe(name: str) -> OwnRecipe:
    """The recipe of that name. Raises RedcoError where there is none."""
    if name not in RECIPES:
        what = f"there is no recipe {name!r} of a class of your own"
        if not name:
            what = "a class does not say what is trained"
        raise RedcoError("--recipe", what, f"choose one of {', '.join(RECIPES)}")
    return RECIPES[name]


def find_output(recipe: OwnRecipe, made: Made, wanted: str) -> Output:
    """What `wanted` names of what a call gives; where it is "", the only thing that fits.

    Raises RedcoError where there is none, or more than one.
    """
    leaves = jax.tree_util.tree_leaves_with_path(made.outputs)
    known = {keystr(path, simple=True, separator="/"): (path, leaf) for path, leaf in leaves}
    fit = {name: leaf for name, (_, leaf) in known.items() if fits(recipe, leaf)}
    told = ", ".join(f"{name or 'an array'} {leaf.shape}" for name, (_, leaf) in known.items())
    where, gives = f"--recipe {recipe.name}", f"of {ROWS} rows, {made.found.name} makes {told}"
    if wanted and wanted not in fit:
        what = f"{wanted!r} is not {recipe.output}: {gives}"
        raise RedcoError("output", what, "name another one, or choose another recipe")
    if not fit:
        raise RedcoError(where, f"{gives}, and no {recipe.output}", "choose another recipe")
    if not wanted and len(fit) > 1:
        what = f"{gives}, and more than one of them can be {recipe.output}"
        todo = f'give output = "{next(iter(fit))}" in a file of --config'
        raise RedcoError(where, what, todo)
    path, leaf = known[wanted or next(iter(fit))]
    return Output(keystr(path), tuple(leaf.shape))


def fits(recipe: OwnRecipe, leaf: Any) -> bool:
    """Whether an output can be the one that a recipe is about."""
    return (
        (np.issubdtype(leaf.dtype, np.inexact) or leaf.dtype == "bfloat16")
        and leaf.shape[:1] == (ROWS,)
        and recipe.rank in (0, len(leaf.shape))
    )


def inputs_of(recipe: OwnRecipe, made: Made, output: Output) -> dict[str, Input]:
    """The inputs, with the number of ids of each. Raises RedcoError for those that do not fit."""
    where = f"--recipe {recipe.name}"
    whole = {k: x for k, x in made.inputs.items() if np.issubdtype(x.dtype, np.integer)}
    rows = [name for name, each in whole.items() if len(each.shape) == 1]
    if len(rows) < recipe.ids:
        what = f"{made.found.name} has {len(rows)} inputs of ids, of shape (B, S) and int32"
        raise RedcoError(where, what, f"it needs {recipe.ids}; choose another recipe")
    if recipe.ids and output.shape[1] != made.inputs[rows[recipe.ids - 1]].shape[0]:
        what = f"the logits {output.shape} are not of the positions of {rows[recipe.ids - 1]}"
        raise RedcoError(where, what, "choose another output, or another recipe")
    found = dict(made.inputs)
    for name, each in whole.items():
        below = each.below or (output.shape[-1] if recipe.ids else None)
        below = below or (256 if each.dtype == "uint8" else None)
        if below is None:
            what = f"how many ids {name} may have is not known"
            raise RedcoError(
                f"[inputs] {name}", what, "add below = 1000, say: ids are less than that"
            )
        found[name] = Input(each.shape, each.dtype, below)
    return found


def ids_of(inputs: Mapping[str, Input]) -> list[str]:
    """The inputs that are ids (B, S), in their order."""
    return [k for k, x in inputs.items() if x.below and len(x.shape) == 1]
