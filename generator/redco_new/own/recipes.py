"""How a class of the user's own is trained: which of its outputs is meant, and what it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.tree_util import keystr

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.own.build import ROWS, AbstractModel
from redco_new.models.recipes import TINY_TEXT

TINY = {section: TINY_TEXT[section] for section in ("optimizer", "train")}
BYTE_VALUES = 256  # of uint8: how many ids an input of bytes may have, where nothing else is said


@dataclass(frozen=True)
class OwnRecipe:
    """A file of templates/own, <name>.py.jinja.

    name: as --recipe has it
    output: what the class gives, for people
    rank: of the output, with B; 0 for any
    ids: how many inputs of whole numbers (B, S) it needs
    target: the array of a batch that is learned, besides the inputs; "" if there is none
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
    """The output of a class that is trained.

    source: Python that takes it out of what a call gives, such as "['logits']"
    shape: with ROWS rows
    """

    source: str
    shape: tuple[int, ...]


def find_recipe(name: str) -> OwnRecipe:
    """Return the recipe of that name. Raises RedcoError where there is none."""
    if name not in RECIPES:
        what = f"there is no recipe {name!r} of a class of your own"
        if not name:
            what = "a class does not say what is trained"
        raise RedcoError("--recipe", what, f"choose one of {', '.join(RECIPES)}")
    return RECIPES[name]


def find_output(recipe: OwnRecipe, model: AbstractModel, wanted: str) -> Output:
    """Return what `wanted` names of what a call gives; where it is "", the only output that fits.

    Raises RedcoError where there is none, or more than one.
    """
    paths = jax.tree_util.tree_leaves_with_path(model.outputs)
    leaves = {keystr(path, simple=True, separator="/"): (path, leaf) for path, leaf in paths}
    fitting = [name for name, (_, leaf) in leaves.items() if _fits_recipe(recipe, leaf)]
    listing = ", ".join(f"{name or 'an array'} {leaf.shape}" for name, (_, leaf) in leaves.items())
    where, gives = (
        f"--recipe {recipe.name}",
        f"of {ROWS} rows, {model.reference.name} makes {listing}",
    )
    if wanted and wanted not in fitting:
        what = f"{wanted!r} is not {recipe.output}: {gives}"
        raise RedcoError("output", what, "name another one, or choose another recipe")
    if not fitting:
        raise RedcoError(where, f"{gives}, and no {recipe.output}", "choose another recipe")
    if not wanted and len(fitting) > 1:
        what = f"{gives}, and more than one of them can be {recipe.output}"
        todo = f'give output = "{fitting[0]}" in a file of --config'
        raise RedcoError(where, what, todo)
    path, leaf = leaves[wanted or fitting[0]]
    return Output(keystr(path), tuple(leaf.shape))


def _fits_recipe(recipe: OwnRecipe, leaf: jax.ShapeDtypeStruct) -> bool:
    """Return whether an output can be the one that a recipe is about."""
    return (
        (np.issubdtype(leaf.dtype, np.inexact) or leaf.dtype == "bfloat16")
        and leaf.shape[:1] == (ROWS,)
        and recipe.rank in (0, len(leaf.shape))
    )


def count_ids(recipe: OwnRecipe, model: AbstractModel, output: Output) -> dict[str, Input]:
    """Return the inputs, with the number of ids of each that holds whole numbers.

    Raises RedcoError for inputs that the recipe cannot train, and for an unknown number.
    """
    where = f"--recipe {recipe.name}"
    whole = {k: x for k, x in model.inputs.items() if np.issubdtype(x.dtype, np.integer)}
    sequences = [name for name, x in whole.items() if len(x.shape) == 1]
    if len(sequences) < recipe.ids:
        what = (
            f"{model.reference.name} has {len(sequences)} inputs of ids, of shape (B, S) and int32"
        )
        raise RedcoError(where, what, f"it needs {recipe.ids}; choose another recipe")
    if recipe.ids:
        last = sequences[recipe.ids - 1]
        if output.shape[1] != model.inputs[last].shape[0]:
            what = f"the logits {output.shape} are not of the positions of {last}"
            raise RedcoError(where, what, "choose another output, or another recipe")
    inputs = dict(model.inputs)
    for name, x in whole.items():
        below = x.below or (output.shape[-1] if recipe.ids else None)
        below = below or (BYTE_VALUES if x.dtype == "uint8" else None)
        if below is None:
            what = f"how many ids {name} may have is not known"
            raise RedcoError(
                f"[inputs] {name}", what, "add below = 1000, say: ids are less than that"
            )
        inputs[name] = replace(x, below=below)
    return inputs


def name_target(recipe: OwnRecipe, inputs: Mapping[str, Input]) -> str:
    """Return the key of the target in a batch, which no input has; "" if there is no target."""
    return f"true_{recipe.target}" if recipe.target in inputs else recipe.target
