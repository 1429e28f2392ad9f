"""A project of a class of the user's own: its files, and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flax import nnx

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.layout import most_parts, traced_rows
from redco_new.generate.project_model import ProjectModel
from redco_new.models.program import Program
from redco_new.models.recipes import NEW, SMOOTHING, Words, scored
from redco_new.own.model import OwnModel, find_own
from redco_new.own.recipes import TINY
from redco_new.own.requirements import find_requirements
from redco_new.own.weights import weights_source
from redco_new.render.execute import load_text
from redco_new.render.template import Template
from redco_new.request import Request

WORDS = Words(
    learns="on examples that `pipeline.py` makes up: read yours there",
    loss="the loss",
    sample="what becomes of a few held-out examples",
    prompt="0",
    predicts="shows a held-out example, by its number",
    data="change `examples` in `pipeline.py`",
)


def read_own_class(request: Request, template: Template) -> Design:
    """Return the class that `request` names. Raises RedcoError if it cannot be made and called."""
    assert request.own
    name, folder, parts = request.name, request.folder, most_parts(request)
    model = find_own(request.model, request.recipe, request.own, name, folder, parts)
    if request.size:
        what = f"{model.name} has the size that its arguments say"
        raise RedcoError("--size", what, "leave it out")
    if request.sequence_parallel:
        what = f"{model.name} does not name its activations, which it is about"
        raise RedcoError("--sequence-parallel", what, "leave it out")
    source = model.source
    texts = template.print_folder("own/model", source)
    weights = weights_source(request.package, source, model.abstract.linen)
    texts |= template.print_folder("own/weights", weights)
    texts |= template.print_folder(f"own/{model.recipe.name}", model.pipeline)
    data_class = texts.pop("data.py")
    files = package_files(request, texts)
    return Design(
        request,
        ProjectModel(
            title=model.name,
            class_name=source.model_class,
            config_class=source.config_class,
            tiny=({"model": source.tiny} if source.tiny else {}) | TINY,
            own_class=model.name,
            imported=True,
        ),
        ProjectRecipe(
            name=model.recipe.name,
            words=WORDS,
            data_class=data_class,
            settings=(*scored(), *((SMOOTHING,) if model.recipe.smooths else ())),
            rate=NEW,
            smooths=model.recipe.smooths,
        ),
        files,
        lambda: _program(request, model, files, {}),
        stateful=model.stateful,
        packages=find_requirements(model.references),
        notes=model.notes,
        tiny=(lambda: _program(request, model, files, source.tiny)) if source.tiny else None,
    )


def _program(
    request: Request, model: OwnModel, files: Mapping[str, str], settings: Mapping[str, Any]
) -> Program:
    """Return the loss of the class with `settings` of its config, by the code that the project has."""

    def load(file: str) -> ModuleType:
        path = f"{request.package}/{file}"
        # Where the project is: its model.py looks for the user's class from there.
        return load_text(str(request.folder.resolve() / path), files[path])

    module = load("model.py")
    config = getattr(module, model.source.config_class)
    build = getattr(module, model.source.model_class)
    loss = load("pipeline.py").loss
    batch = model.batch(traced_rows(request))
    return Program(lambda: build(config(**settings), rngs=nnx.Rngs(0)), loss, batch)
