"""The kinds of training: their pipelines, and a batch to trace them with."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redco_new.errors import RedcoError
from redco_new.sources.load import load_file


@dataclass(frozen=True)
class Recipe:
    """A file of templates/recipes. example: sequence length -> one example of its collate."""

    name: str
    file: str
    example: Callable[[int], dict[str, Any]]


def _text(length: int) -> dict[str, Any]:
    return {"input_ids": np.zeros(length, np.int32), "mask": np.ones(length, bool)}


RECIPES = {"lm": Recipe(name="lm", file="lm.py", example=_text)}


def find_recipe(name: str, where: str = "--recipe") -> Recipe:
    """The recipe of that name. Raises RedcoError that suggests the near ones."""
    if name in RECIPES:
        return RECIPES[name]
    near = difflib.get_close_matches(name.lower(), RECIPES, n=3, cutoff=0.5)
    todo = f"did you mean {' or '.join(near)}?" if near else f"choose one of {', '.join(RECIPES)}"
    raise RedcoError(where, f"unknown recipe {name!r}", todo)


def loss_and_batch(
    recipe: Recipe, template: Path, batch_size: int, length: int
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """(loss(model, batch, rngs), abstract batch) of a recipe's pipeline."""
    import jax

    module = load_file(template / "recipes" / recipe.file)
    arrays = module.collate([recipe.example(length)] * batch_size)
    batch = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in arrays.items()}
    return module.loss, batch
