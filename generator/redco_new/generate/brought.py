"""A project of the model that a recipe brings: its model.py is a file of the recipe, and then its user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import ModuleType
from typing import Any

from flax import nnx

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectModel, ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.layout import traced_rows
from redco_new.models.program import Program
from redco_new.models.recipes import RECIPES, OwnModel, Recipe, pipeline_and_batch
from redco_new.own.weights import WeightsSource
from redco_new.render.execute import load_text
from redco_new.render.python import print_call
from redco_new.render.template import Template
from redco_new.request import Request


def read_recipe_model(request: Request, template: Template) -> Design:
    """Return the model that the recipe of `request` brings. Raises RedcoError if it brings none."""
    recipe, model = find_model(request)
    texts = recipe.print_files(template, request.package, "", 0, routed=False)
    texts |= template.print_folder("own/weights", weights_source(request.package, model))
    data_class = texts.pop("data.py")
    files = package_files(request, texts)
    tiny = recipe.tiny["model"]
    sections = {
        name: print_call(model.config_class if name == "model" else name.capitalize(), fields)
        for name, fields in recipe.tiny.items()
    }
    return Design(
        request,
        ProjectModel(
            title=model.title,
            class_name=model.name,
            config_class=model.config_class,
            config_default=model.config_class,
            make=f"{model.name}(config.model, rngs=nnx.Rngs(key))",
            own_class=model.name,
        ),
        ProjectRecipe(
            name=recipe.name,
            words=recipe.words,
            data_class=data_class,
            tiny=sections,
            train_lines=recipe.train,
            scored=recipe.scored,
            whole_batch=recipe.whole_batch,
            draws=recipe.draws,
        ),
        files,
        lambda: read_program(request, recipe, model, files, {}),
        packages=recipe.packages,
        runtime=recipe.runtime,
        tiny=lambda: read_program(request, recipe, model, files, tiny),
    )


def find_model(request: Request) -> tuple[Recipe, OwnModel]:
    """Return the recipe of `request`, and the model that it brings. Raises RedcoError."""
    brought = {name: x for name, x in RECIPES.items() if isinstance(x.model, OwnModel)}
    name = request.recipe
    if name not in brought:
        what = f"the recipe {name!r} brings no model of its own"
        todo = f"give --model, or choose one of {', '.join(brought)}"
        raise RedcoError("--recipe", what, todo)
    if request.size:
        raise RedcoError("--size", f"the model of {name} has none", "leave it out")
    if request.sequence_parallel:
        what = f"the model of {name} does not name its activations, which it is about"
        raise RedcoError("--sequence-parallel", what, "leave it out")
    model = brought[name].model
    assert isinstance(model, OwnModel)
    return brought[name], model


def weights_source(package: str, model: OwnModel) -> WeightsSource:
    """Return what weights.py prints: names in files are the paths of model.py."""
    imports = {
        "formats": "open_arrays",
        "model": f"{model.config_class}, {model.name}",
        "sharding": "APART",
    }
    return WeightsSource(
        imports=tuple(f"from {package}.{name} import {x}" for name, x in imports.items()),
        name=model.name,
        model_class=model.name,
        config_class=model.config_class,
        example="layers/0/kernel",
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
    return Program(lambda: build(config, rngs=nnx.Rngs(0)), pipeline.loss, batch)
