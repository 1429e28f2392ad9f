"""The kinds of training: what they need of a model, their pipelines, a batch to trace them with."""

from redco_new.models.recipes.choose import choose_recipe, pipeline_and_batch, possible_recipes
from redco_new.models.recipes.defaults import NEW, SMOOTHING, TINY_TEXT, Rate, Setting, scored
from redco_new.models.recipes.kinds import RECIPES
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

__all__ = [
    "RECIPES",
    "TINY_TEXT",
    "NEW",
    "SMOOTHING",
    "Setting",
    "Figure",
    "OwnModel",
    "Rate",
    "Recipe",
    "Words",
    "choose_recipe",
    "pipeline_and_batch",
    "possible_recipes",
    "scored",
]
