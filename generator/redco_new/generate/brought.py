"""A project of the model that a recipe brings: its model.py is a file of the recipe, and then its user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from types import ModuleType
from typing import Any

from flax import nnx

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.plan import traced_rows
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.shards import check_positions
from redco_new.models.branches import (
    MAIN,
    default_config,
    trained_parameters,
)
from redco_new.models.families import FAMILIES
from redco_new.models.program import Program
from redco_new.models.recipes import RECIPES, OwnModel, Recipe, pipeline_and_batch
from redco_new.own.recipes import RECIPES as OWN_RECIPES
from redco_new.own.weights import WeightsSource
from redco_new.render.execute import load_text
from redco_new.render.template import Template
from redco_new.request import Request
from redco_new.request.lookup import look_up


def read_recipe_model(request: Request, template: Template) -> Design:
    """Return the model that the recipe of `request` brings. Raises RedcoError if it brings none."""
    recipe, model = find_model(request)
    texts = recipe.print_files(template, request.package, routed=False)
    texts |= template.print_folder("own/weights", weights_source(request.package, recipe, model))
    files = package_files(request, texts)
    return Design(
        request,
        ProjectModel(
            title=model.title,
            class_name=model.name,
            config_class=model.config_class,
            tiny=recipe.tiny,
            branches=recipe.branches,
            maker=recipe.maker,
            own_class=model.name,
        ),
        ProjectRecipe.of(recipe),
        files,
        partial(read_program, request, recipe, model, files),
        packages=recipe.packages,
        tiny=recipe.tiny["model"],
    )


def check_brings_model(name: str, spelling: str = "--model {}") -> None:
    """Raise RedcoError where there is no recipe of that name, or it trains a model that its user names.

    spelling: how a model is named.
    """
    if name in OWN_RECIPES.keys() - RECIPES.keys():
        todo = f"give {spelling.format('FILE.py:NAME')}"
        raise RedcoError("--recipe", f"{name} trains a class of your own", todo)
    recipe = look_up("recipe", name, RECIPES)
    if isinstance(recipe.model, OwnModel):
        return
    others = [x.name for x in FAMILIES.values() if recipe.takes(x.provides)]
    others.remove(recipe.model)
    more = f", or another: {', '.join(others)}" if others else ""
    todo = f"give {spelling.format(recipe.model)}{more}"
    raise RedcoError("--recipe", f"{name} trains a model that you name", todo)


def find_model(request: Request) -> tuple[Recipe, OwnModel]:
    """Return the recipe of `request`, and the model that it brings. Raises RedcoError for what that has not."""
    name = request.recipe
    if request.size:
        raise RedcoError("--size", f"the model of {name} has none", "leave it out")
    check_positions(request, f"the model of {name}")
    model = RECIPES[name].model
    assert isinstance(model, OwnModel)
    return RECIPES[name], model


def weights_source(package: str, recipe: Recipe, model: OwnModel) -> WeightsSource:
    """Return what weights.py prints: names in files are the paths of model.py."""
    several = bool(recipe.branches)
    call = f"pipeline.Models({model.name}, config" if several else f"{model.name}(config"
    imports = {
        "formats": "open_arrays",
        "model": model.name if several else f"{model.config_class}, {model.name}",
        "sharding": "APART",
    }
    return WeightsSource(
        imports=(
            *([f"from {package} import pipeline"] if several else []),
            *(f"from {package}.{name} import {x}" for name, x in imports.items()),
        ),
        name="Models" if several else model.name,
        config_class="Config" if several else model.config_class,
        settings="config" if several else "config.model",
        make=f"{call}, rngs=nnx.Rngs(0))",
        example=f"{recipe.branches[0].name}/layers/0/kernel" if several else "layers/0/kernel",
        linen=False,
        own_path="path",
        run_apart="APART",
        model_apart="APART",
    )


def read_program(
    request: Request,
    recipe: Recipe,
    model: OwnModel,
    files: Mapping[str, str],
    settings: Mapping[str, Any],
) -> Program:
    """Return the loss of the model with `settings` of its config, by the code that the project has."""

    def load(file: str) -> ModuleType:
        path = f"{request.package}/{file}"
        return load_text(path, files[path])

    module = load("model.py")
    config = getattr(module, model.config_class)(**settings)
    build = getattr(module, model.name)
    text = files[f"{request.package}/pipeline.py"]
    pipeline, batch = pipeline_and_batch(recipe, text, traced_rows(request), asdict(config), 0)

    def make() -> nnx.Module:
        if recipe.branches:
            return pipeline.Models(
                build, default_config({MAIN: config}, recipe.defaults), rngs=nnx.Rngs(0)
            )
        return build(config, rngs=nnx.Rngs(0))

    return Program(make, pipeline.loss, batch, trained=trained_parameters(recipe.branches))
