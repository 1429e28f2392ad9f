"""A class of the user's own as a project trains it: its files, and its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import Any

from flax import nnx

from redco_new.generate.context import OWN, ProjectRecipe
from redco_new.generate.design import Design, no_adapter, package_files
from redco_new.generate.plan import traced_rows
from redco_new.generate.project_model import ProjectModel
from redco_new.models.program import Program
from redco_new.models.recipes import NEW, SMOOTHING, Words, scored
from redco_new.own.model import OwnModel
from redco_new.own.recipes import TINY
from redco_new.own.requirements import find_requirements
from redco_new.pytorch.table import stacked_parts
from redco_new.render.execute import importable, load_text
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

REMAT, ALL = "remat", "everything_saveable"  # the field that says what layers save; all of it


@dataclass(frozen=True)
class ClassNames:
    """The two classes of model.py."""

    model: str
    config: str


def own_design(
    request: Request,
    template: Template,
    model: OwnModel,
    names: ClassNames,
    texts: Mapping[str, str],
    full: Mapping[str, Any],
    tiny: Mapping[str, Any],
    notes: Sequence[str] = (),
    saves: bool = False,
) -> Design:
    """Return a class as a project trains it. Raises RedcoError for an adapter.

    names: of the classes of model.py
    texts: name -> text of model.py and weights.py, and what they need in the package
    full, tiny: fields of its config that these presets have otherwise than model.py
    saves: whether that has `remat`
    """
    if request.lora:
        raise no_adapter(request)
    pipeline = template.print_folder(f"own/{model.recipe.name}", model.pipeline)
    files = package_files(request, {**texts, **pipeline})

    return Design(
        request,
        ProjectModel(
            title=model.name,
            class_name=names.model,
            config_class=names.config,
            sizes={"model": full} if full else {},
            tiny=({"model": tiny} if tiny else {}) | TINY,
            own_class=model.name,
            imported=not model.printed,
            printed=model.printed,
            saves=saves,
            drops=model.drops,
            stacked=stacked_parts(texts.get("weights.py", "")) if model.printed else (),
        ),
        ProjectRecipe(
            name=model.recipe.name,
            words=WORDS,
            data=OWN,
            settings=(*scored(), *((SMOOTHING,) if model.recipe.smooths else ())),
            rate=NEW,
            smooths=model.recipe.smooths,
        ),
        files,
        partial(_program, request, model, names, files, full),
        stateful=model.stateful,
        packages=() if model.printed else find_requirements(model.references),
        notes=[*model.notes, *notes],
        notes_of_a_run=cache(model.notes_of_a_run),  # in a project it has no runtime to run by
        tiny={
            name: value for name, value in tiny.items() if name != REMAT
        },  # its layout is the same
    )


def _program(
    request: Request,
    model: OwnModel,
    names: ClassNames,
    files: Mapping[str, str],
    full: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Program:
    """Return the loss of the class with `full` and `settings` of its config, by the code that the project has."""

    def load(file: str) -> ModuleType:
        path = f"{request.package}/{file}"
        # Where the project is: its model.py looks for the user's class from there.
        return load_text(str(request.folder.resolve() / path), files[path])

    with importable(request.folder, request.package):  # what the user's model.py imports beside it
        module = load("model.py")
    config, build = getattr(module, names.config), getattr(module, names.model)
    loss = load("pipeline.py").loss
    batch = model.batch(traced_rows(request))
    return Program(lambda: build(config(**{**full, **settings}), rngs=nnx.Rngs(0)), loss, batch)
