"""How a class of the user's own is trained: what it needs to give, and what it learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redco_new.errors import RedcoError
from redco_new.request.own_class import Input
from redco_new.models.recipes import TINY_TEXT

TINY = {section: TINY_TEXT[section] for section in ("optimizer", "train")}


@dataclass(frozen=True)
class OwnRecipe:
    """A file of templates/own, <name>.py.jinja.

    name: as --recipe has it
    output: what the class gives, for people
    rank: of the output, with B; 0 for any
    ids: how many inputs of whole numbers (B, S) it needs
    target: the array of a batch that is learned, besides the inputs; "" if there is none
    smooths: whether its loss is the cross-entropy of labels, which --label-smoothing can smooth
    """

    name: str
    output: str
    rank: int = 0
    ids: int = 0
    target: str = ""
    smooths: bool = True


RECIPES = {
    recipe.name: recipe
    for recipe in (
        OwnRecipe("classify", "logits of shape (B, classes)", rank=2, target="label"),
        OwnRecipe("regress", "numbers", target="target", smooths=False),
        OwnRecipe("lm", "logits of shape (B, S, words)", rank=3, ids=1),
        OwnRecipe("seq2seq", "logits of shape (B, T, words)", rank=3, ids=2),
    )
}


def find_recipe(name: str) -> OwnRecipe:
    """Return the recipe of that name. Raises RedcoError where there is none."""
    if name not in RECIPES:
        what = f"there is no recipe {name!r} of a class of your own"
        if not name:
            what = "a class does not say what is trained"
        raise RedcoError("--recipe", what, f"choose one of {', '.join(RECIPES)}")
    return RECIPES[name]


def name_target(recipe: OwnRecipe, inputs: Mapping[str, Input]) -> str:
    """Return the key of the target in a batch, which no input has; "" if there is no target."""
    return f"true_{recipe.target}" if recipe.target in inputs else recipe.target
