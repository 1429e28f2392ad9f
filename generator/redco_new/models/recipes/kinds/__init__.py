"""The recipes: one module of this package each, named as its recipe, with _ for -."""

import pkgutil
from importlib import import_module

from redco_new.models.recipes.recipe import Recipe


def _discover() -> dict[str, Recipe]:
    """Return each Recipe that a module here defines, by its name, in the order that it asks for."""
    modules = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    recipes = [x for module in modules for x in vars(module).values() if isinstance(x, Recipe)]
    return {x.name: x for x in sorted(recipes, key=lambda x: (x.order, x.name))}


RECIPES: dict[str, Recipe] = _discover()
