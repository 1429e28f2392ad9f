"""The recipes, for `redco recipes`: what each learns, of what, by how many lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypedDict

from redco_new.inspect import text
from redco_new.models.family import CAUSAL, ENCODER_DECODER, IMAGES, MASKED
from redco_new.models.recipes import RECIPES, Recipe
from redco_new.render.template import Template

MODELS = {
    CAUSAL: "a decoder",
    MASKED: "an encoder",
    ENCODER_DECODER: "an encoder-decoder",
    IMAGES: "a model of images",
}


class RecipeRow(TypedDict):
    """A recipe.

    name: as --recipe has it
    title: what it is
    takes: the models that --model may name
    source: what it learns from where its user names no data
    create: the arguments of redco-new that create a project of it
    lines: of its pipeline.py
    figure: what the preset tiny reaches: `name` is a key of eval.jsonl, whose last value is at `least`,
        or at `most`, the other number
    """

    name: str
    title: str
    takes: str
    source: str
    create: list[str]
    lines: int
    figure: dict[str, str | float]


def list_recipes(template: Template) -> Iterator[RecipeRow]:
    """Yield a row for each recipe, in the order of RECIPES."""
    for recipe in RECIPES.values():
        texts = recipe.print_files(template, "package", routed=False)
        yield {
            "name": recipe.name,
            "title": recipe.title,
            "takes": describe_models(recipe),
            "source": recipe.source,
            "create": [*recipe.create],
            "lines": len(texts["pipeline.py"].splitlines()),
            "figure": {"name": recipe.figure.name, **recipe.figure.bound},
        }


def describe_models(recipe: Recipe) -> str:
    """Return which models --model may name for a recipe."""
    if isinstance(recipe.model, str):
        kinds = [MODELS[needs] for needs in (recipe.needs, recipe.also) if needs]
        return f"{' or '.join(kinds)}: {recipe.model}"
    return f"brings its own: {recipe.model.title}"


def print_recipes(rows: list[RecipeRow], *, as_json: bool) -> None:
    """Print a table, or JSON."""
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console

    table = text.make_grid("recipe", "what it is", "model", "learns from", "lines of pipeline.py")
    for row in rows:
        words = (row["name"], row["title"], row["takes"], row["source"])
        table.add_row(*words, str(row["lines"]))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = text.WIDTH
    console.print(table)
    console.print(
        "\nredco-new NAME --recipe RECIPE, with --model where the recipe brings none. A class of your own"
        " has recipes of its own: classify, regress, lm, seq2seq.",
        soft_wrap=True,
    )
