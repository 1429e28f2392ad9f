"""The loss of a model by one of redco's recipes, which its layout is derived from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flax import nnx

from redco_new.generate.plan import traced_rows
from redco_new.models.adapter import Adapter, adapter_parameters
from redco_new.models.branches import (
    MAIN,
    copies_of_first,
    default_config,
    section_changes,
    trained_parameters,
)
from redco_new.models.program import Program
from redco_new.models.recipes import Recipe, pipeline_and_batch
from redco_new.request import Request


@dataclass(frozen=True)
class Built:
    """A model as a recipe's program makes it.

    model_class, config_class: of model.py
    sizes: of the full model: fields of its config
    settings: further ones, of all sections that have sizes
    provides: signatures of the class
    routed: whether its layers have experts, whose routers have a loss of their own
    """

    model_class: Callable[..., nnx.Module]
    config_class: Callable[..., Any]
    sizes: Mapping[str, Any]
    settings: Mapping[str, Any]
    provides: frozenset[str]
    routed: bool = False


def recipe_program(
    request: Request,
    built: Built,
    recipe: Recipe,
    adapter: Adapter | None,
    files: Mapping[str, str],
    length: int,
) -> Program:
    """Return the loss of the full model, by the code that the project has.

    files: path -> text of the project's. length: tokens of an example.
    """
    changes = section_changes(recipe.branches, built.sizes)
    sections = {k: built.config_class(**{**built.settings, **x}) for k, x in changes.items()}
    text, rows = files[f"{request.package}/pipeline.py"], traced_rows(request)
    pipeline, batch = pipeline_and_batch(recipe, text, rows, built.sizes, length)

    put = {"put": adapter.put} if adapter else {}

    def build(sizes: Any, *, rngs: nnx.Rngs) -> nnx.Module:
        one: nnx.Module = built.model_class(sizes, rngs=rngs)
        return adapter.put(one, rngs) if adapter else one

    def make() -> nnx.Module:
        if recipe.maker:
            config = default_config(sections, recipe.defaults)
            models: nnx.Module = getattr(pipeline, recipe.maker)(build, config, rngs=nnx.Rngs(0))
            return models
        return build(sections[MAIN], rngs=nnx.Rngs(0))

    whole = recipe.beside_adapter(built.provides)
    trained = adapter_parameters(whole) if request.lora else trained_parameters(recipe.branches)
    copies = copies_of_first(recipe.branches)
    return Program(make, pipeline.loss, batch, built.routed, trained, **put, copies=copies)
