"""Which recipes a model can be trained by, and the loss and the batch that they trace."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

from redco_new.errors import RedcoError
from redco_new.models.recipes.kinds import RECIPES
from redco_new.models.recipes.recipe import Recipe
from redco_new.render.execute import load_text


class Trained(Protocol):
    """What a recipe asks of a family, or of a class that has its methods."""

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes by which it is usually trained, the default first."""

    @property
    def provides(self) -> frozenset[str]:
        """The signatures that recipes may call."""


def possible_recipes(family: Trained) -> list[str]:
    """Return the recipes whose needs a family meets, its default first."""
    others = [
        name
        for name, recipe in RECIPES.items()
        if isinstance(recipe.model, str)
        and recipe.takes(family.provides)
        and name not in family.recipes
    ]
    return [*family.recipes, *others]


def choose_recipe(family: Trained, name: str, model: str, loss: str = "") -> Recipe:
    """Return the recipe that `--recipe name --loss loss` asks for; the default where a name is "".

    model: as --model has it, for messages.
    Raises RedcoError, which names those that are possible.
    """
    possible = possible_recipes(family)
    if name and name not in possible:
        kinds = "recipe" if len(possible) == 1 else "recipes"
        what = f"{model} is trained by the {kinds} {', '.join(possible)}"
        raise RedcoError("--recipe", what, f"leave it out, or choose {' or '.join(possible)}")
    return RECIPES[name or possible[0]].by(loss)


def pipeline_and_batch(
    recipe: Recipe, pipeline: str, rows: int, sizes: Mapping[str, Any], length: int
) -> tuple[ModuleType, dict[str, Any]]:
    """Return the module of the text of a pipeline, and an abstract batch for its loss."""
    import jax

    module = load_text("pipeline.py", pipeline)
    row = module.collate([recipe.example(sizes, length)])
    batch = {name: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype) for name, x in row.items()}
    return module, batch
