"""A project of a model family: its files, printed from the family's templates, and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.recipe_program import Built, recipe_program
from redco_new.generate.stages import with_stages
from redco_new.models.adapter import (
    Adapter,
    choose_adapter,
    expert_kernels,
    family_tensors,
    linear_layers,
)
from redco_new.models.branches import (
    section_changes,
)
from redco_new.models.family import CAUSAL
from redco_new.models.find import Model, find_model, is_checkpoint
from redco_new.models.dropout import dropout_notes, with_dropout
from redco_new.models.gguf import format_of
from redco_new.models.hf_config import TEXT_ALONE, TRANSFORMERS
from redco_new.models.program import Program
from redco_new.models.recipes import Recipe, choose_recipe
from redco_new.models.recorded import recall, record
from redco_new.render.execute import load_text
from redco_new.render.template import Template
from redco_new.errors import RedcoError
from redco_new.request import COMPUTE, RING, Request
from redco_plan import CONTEXT, MODEL

# Sizes of models that turn positions, and have no table of them.
ROTATED = {"rope_theta", "rotary_dim"}
SWEPT = ("lm", "sft")  # the recipes whose loop is that of many adapters, too


def read_family(request: Request, template: Template) -> Design:
    """Return the model of a family that `request` names. Raises RedcoError if there is none."""
    key = (request.model, request.size, request.mesh[MODEL], request.folder)
    around = request.context_attention == RING  # where no device of context has heads of its own
    context = 1 if around else request.mesh.get(CONTEXT, 1)
    recorded = request.recorded
    source = (recorded or {}).get("source")
    model = recall(recorded, *key, context)
    model = model or find_model(*key, source=source, context=context)
    recipe = choose_recipe(model.family, request.recipe, request.model, request.loss)
    recipe = recipe.having(request.features)
    recorded = record(model, *key, context)
    model = with_dropout(model, request, recipe)
    _check_ring(request, model)
    model = _with_length(request, model)
    model = with_stages(request, model, recipe)
    length, recipe = _sequence_length(request, model), _with_tiny_length(request, recipe)
    if request.lora:
        recipe = recipe.adapted()
        _check_sweep(request.lora.sweep, recipe)
    _check_products(request, recipe)
    texts = model.print_files(template, request.package)
    adapter = _adapter(request, model, recipe, texts)
    causal = model.family.provides >= CAUSAL
    kind: dict[str, Any] = {
        "adapted": request.lora is not None,
        "causal": causal,
        "head_rate": model.head_rate,
    }
    texts |= recipe.print_files(template, request.package, model.family.routed, **kind)
    files = package_files(request, texts)
    return Design(
        request,
        _project_model(request, model, recipe, adapter),
        ProjectRecipe.of(
            recipe,
            rate=recipe.adapter_rate if adapter else recipe.rate,
            continues=recipe.name in ("lm", "distillation"),
            routed=model.family.routed,
            tokenized="tokenizer" in recipe.tiny.get("data", {}),
            tokenizer=model.tokenizer,
            sequence_length=length,
        ),
        files,
        partial(_program, request, model, recipe, adapter, files, length),
        recorded,
        packages=(*recipe.packages, f"transformers>={TRANSFORMERS}"),
        notes=_notes(request, model, recipe),
    )


def _adapter(
    request: Request, model: Model, recipe: Recipe, texts: Mapping[str, str]
) -> Adapter | None:
    """Return what --lora asks for, if it does. Raises RedcoError."""
    if not request.lora:
        return None
    tensors = family_tensors(model.family, request.package, texts)
    linear, experts = linear_layers(tensors), expert_kernels(tensors)
    return choose_adapter(linear, request.lora, request.model, recipe.classes, experts)


def _check_sweep(count: int, recipe: Recipe) -> None:
    """Raise RedcoError where many adapters at once are asked for, of a recipe that trains one."""
    if count and recipe.name not in SWEPT:
        what = (
            f"the recipe {recipe.name} trains one adapter, and {' and '.join(SWEPT)} many at once"
        )
        raise RedcoError("--lora: sweep", what, "leave it out, or choose another --recipe")


def _check_products(request: Request, recipe: Recipe) -> None:
    """Raise RedcoError where --products would not be what layers multiply in, or would change what they learn."""
    if request.products == COMPUTE:
        return
    if recipe.actors:
        what = f"{recipe.name} weighs answers by their probabilities, which are computed in {request.dtype}"
        raise RedcoError("--products", what, "leave it out")


def _with_length(request: Request, model: Model) -> Model:
    """Return the model for texts of --sequence-length, if that is given. Raises RedcoError."""
    length, full = request.sequence_length, model.full
    if not length:
        return model
    if not full.sequence_length:
        raise RedcoError("--sequence-length", f"{request.model} takes no texts", "leave it out")
    if length > full.sizes.get("max_positions", length):
        if not ROTATED & full.sizes.keys():
            what = f"{request.model} has a table of {full.sizes['max_positions']} positions"
            raise RedcoError("--sequence-length", f"{length}: {what}", "give as many at most")
        full = replace(full, sizes=full.sizes | {"max_positions": length})
    return replace(model, full=replace(full, sequence_length=length))


def _parts_of_texts(request: Request) -> int:
    """Return into how many parts of equal length the devices cut a text."""
    parts = request.mesh.get(CONTEXT, 1)
    parts *= 2 if request.context_attention == RING else 1  # a part from either end
    return parts * (request.mesh[MODEL] if request.sequence_parallel else 1)


def _sequence_length(request: Request, model: Model) -> int:
    """Return the full model's tokens; a multiple of what splits them. Raises RedcoError where another number was asked for."""
    length, parts = model.full.sequence_length, _parts_of_texts(request)
    less = length - length % parts
    if request.sequence_length and less < length:
        what = f"{length}: {parts} equal parts of a text, which its mesh asks for, do not divide it"
        raise RedcoError("--sequence-length", what, f"give {less or parts} or {less + parts}")
    return less


def _with_tiny_length(request: Request, recipe: Recipe) -> Recipe:
    """Return the recipe, texts of whose preset tiny are a multiple of what splits them."""
    data, parts = recipe.tiny.get("data", {}), _parts_of_texts(request)
    if parts == 1 or "sequence_length" not in data:
        return recipe
    length = -(-data["sequence_length"] // parts) * parts
    return replace(recipe, tiny={**recipe.tiny, "data": {**data, "sequence_length": length}})


def _check_ring(request: Request, model: Model) -> None:
    """Raise RedcoError for attention that does not go in a ring."""
    if request.context_attention != RING:
        return
    what, todo = "", "leave it out"
    if not CAUSAL <= model.family.provides:
        what = f"attention of {request.model_name} is in no causal order"
    elif model.family.dropout.get("weights") in model.full.sizes:
        what, todo = "a ring does not drop weights of attention", "give --dropout 0"
    if what:
        raise RedcoError("--context-attention ring", what, todo)


def _notes(request: Request, model: Model, recipe: Recipe) -> list[str]:
    notes = []
    if model.absent:
        notes.append(f"{request.model} is not here: its config.json is that of the last update")
    if model.within:
        notes.append(TEXT_ALONE.format(name=request.model, architecture=model.family.architecture))
    return notes + dropout_notes(model, request, recipe)


def _project_model(
    request: Request, model: Model, recipe: Recipe, adapter: Adapter | None
) -> ProjectModel:
    family, changes = model.family, section_changes(recipe.branches, model.full.sizes)
    return ProjectModel(
        title=model.title,
        class_name=family.model_class,
        config_class=family.config_class,
        sizes={section: {"dtype": request.dtype, **others} for section, others in changes.items()},
        tiny=_tiny_preset(recipe, model, adapter),
        saves=True,
        branches=recipe.branches,
        maker=recipe.maker,
        head=bool(recipe.head_of(family.provides)),
        classes=bool(recipe.classes),
        adapter=adapter,
        whole=recipe.beside_adapter(family.provides) if adapter else (),
        task=recipe.task or family.task,
        modules=model.within or family.modules,
        bias_tables=() if adapter else family.bias_tables,
        drops=adapter is not None or bool(model.context(request.package).rates),
        checkpoint=request.model if is_checkpoint(request.model) else "",
        format=format_of(family, model.full, recipe, request.features),
    )


def _tiny_preset(
    recipe: Recipe, model: Model, adapter: Adapter | None
) -> dict[str, Mapping[str, Any]]:
    """Return section of config.py -> its fields in the preset `tiny`."""
    assert model.tiny.quirks == model.full.quirks, "a tiny model must be of the same kind"
    sizes = {k: v for k, v in model.tiny.sizes.items() if v != model.full.sizes[k]}
    settings = sizes | {"dtype": "float32", "remat": "everything_saveable"}
    changes = section_changes(recipe.branches, model.tiny.sizes)
    fields = {name: settings | others for name, others in changes.items()}
    own = adapter.tiny if adapter else {}
    if adapter and adapter.lora.sweep:
        rate = recipe.tiny.get("optimizer", {}).get("learning_rate", recipe.adapter_rate.value)
        own = {**own, "sweep": adapter.lora.sweep_around(rate)}
    return {**fields, **own, **recipe.tiny}


def _program(
    request: Request,
    model: Model,
    recipe: Recipe,
    adapter: Adapter | None,
    files: Mapping[str, str],
    length: int,
    changes: Mapping[str, Any],
) -> Program:
    """Return the loss of the full model, with `changes` of its config, by the code that the project has."""
    path, family = f"{request.package}/model.py", model.family
    module = load_text(path, files[path])
    built = Built(
        getattr(module, family.model_class),
        getattr(module, family.config_class),
        model.full.sizes,
        {"dtype": request.dtype, **changes},
        family.provides,
        family.routed,
    )
    return recipe_program(request, built, recipe, adapter, files, length)
