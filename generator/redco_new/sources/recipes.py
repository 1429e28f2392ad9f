"""The kinds of training: their pipelines, and a batch to trace them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redco_new.sources.load import load_file
from redco_new.sources.lookup import look_up


@dataclass(frozen=True)
class Recipe:
    """A file of templates/recipes. example: sequence length -> one example of its collate."""

    name: str
    file: str
    example: Callable[[int], dict[str, Any]]


def _text(length: int) -> dict[str, Any]:
    return {"input_ids": np.zeros(length, np.int32), "mask": np.ones(length, bool)}


RECIPES = {"lm": Recipe(name="lm", file="lm.py", example=_text)}


def find_recipe(name: str) -> Recipe:
    """The recipe of that name. Raises RedcoError that suggests the near ones."""
    return look_up("recipe", name, RECIPES)


def loss_and_batch(
    recipe: Recipe, template: Path, batch_size: int, length: int
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """(loss(model, batch, rngs), abstract batch) of a recipe's pipeline."""
    import jax

    module = load_file(template / "recipes" / recipe.file)
    row = module.collate([recipe.example(length)])
    batch = {
        name: jax.ShapeDtypeStruct((batch_size, *x.shape[1:]), x.dtype) for name, x in row.items()
    }
    return module.loss, batch
