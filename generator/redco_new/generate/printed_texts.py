"""A decoder of transformers, printed, as a project trains it: by the recipes of texts, as a family's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.own_design import ClassNames
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.recipe_program import Built, recipe_program
from redco_new.errors import RedcoError
from redco_new.models.adapter import Adapter, choose_adapter, linear_layers
from redco_new.models.decoders import LONGEST
from redco_new.models.family import CAUSAL
from redco_new.models.gguf import safetensors_alone
from redco_new.models.program import Program
from redco_new.models.recipes import Recipe, choose_recipe
from redco_new.models.tiny import tiny_vocab
from redco_new.own.model import OwnModel
from redco_new.pytorch.table import stacked_parts, tensor_names
from redco_new.render.execute import importable, load_text
from redco_new.render.template import Template
from redco_new.request import Request
from redco_plan import MODEL

DTYPE = "dtype"  # the field of the config that says what is computed in
VOCAB = "vocab_size"  # the field of the config that recipes of texts read
# What configs of transformers call the numbers of a hidden state, and the longest text.
FEATURES = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
SHORT = 256  # tokens that the preset tiny has positions for


@dataclass(frozen=True)
class Decoder:
    """What a recipe asks of a class of transformers whose printed model has the methods of a decoder."""

    recipes: tuple[str, ...] = ("lm",)
    provides: frozenset[str] = CAUSAL


def is_decoder(model_class: Any, fields: Sequence[str]) -> bool:
    """Return whether a printed class has what recipes of texts call, and read."""
    return hasattr(model_class, "decode") and VOCAB in fields


def decoder_design(
    request: Request,
    template: Template,
    model: OwnModel,
    names: ClassNames,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Design:
    """Return a decoder as a recipe of texts trains it. Raises RedcoError.

    model: the printed class, made and called
    names: of the classes of model.py
    texts: name -> text of model.py and weights.py
    """
    recipe = choose_recipe(Decoder(), request.recipe, model.name, request.loss)
    if recipe.teacher:
        what = f"{recipe.name} makes a smaller model of the same kind, and {model.name} is printed in one size"
        raise RedcoError("--recipe", what, "choose another")
    adapter = _adapter(request, model, recipe, texts)
    recipe = recipe.adapted() if adapter else recipe
    sizes = _sizes(request, names, texts)
    length = min(sizes.get(next((x for x in POSITIONS if x in sizes), ""), LONGEST), LONGEST)
    full = {DTYPE: request.dtype} if DTYPE in sizes else {}
    tiny = _tiny(request, model, sizes)
    tokenizer = request.checkpoint or "bytes"
    features = next((x for x in FEATURES if x in sizes), FEATURES[0])
    printed = recipe.print_files(
        template, request.package, False, adapted=bool(adapter), causal=True, features=features
    )
    files = package_files(request, {**texts, **printed})

    def program(changes: Mapping[str, Any]) -> Program:
        path = f"{request.package}/model.py"
        with importable(request.folder, request.package):
            module = load_text(str(request.folder.resolve() / path), files[path])
        classes = getattr(module, names.model), getattr(module, names.config)
        built = Built(*classes, {**sizes, **full, **changes}, {**full, **changes}, CAUSAL)
        return recipe_program(
            request, built, recipe, adapter, files, min(length, SHORT) if changes else length
        )

    return Design(
        request,
        _project_model(request, model, names, recipe, adapter, full, tiny, texts),
        ProjectRecipe.of(
            recipe,
            rate=recipe.adapter_rate if adapter else recipe.rate,
            continues=recipe.name == "lm",
            tokenized=True,
            tokenizer=tokenizer,
            sequence_length=length,
        ),
        files,
        program,
        stateful=model.stateful,
        packages=(*recipe.packages, "transformers>=5"),
        notes=[*model.notes, *notes],
        tiny=tiny,
    )


def _adapter(
    request: Request,
    model: OwnModel,
    recipe: Recipe,
    texts: Mapping[str, str],
) -> Adapter | None:
    """Return what --lora asks for, if it does. Raises RedcoError."""
    if not request.lora:
        return None
    linear = linear_layers(tensor_names(texts["weights.py"]))
    return choose_adapter(linear, request.lora, model.name, recipe.classes)


def _sizes(request: Request, names: ClassNames, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the config, with their defaults: those of the full model."""
    module = load_text(f"{request.package}/model.py", texts["model.py"])
    return dict(vars(getattr(module, names.config)()))


def _tiny(request: Request, model: OwnModel, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the preset tiny has otherwise: words for bytes, and positions for its texts."""
    tiny = dict(model.tiny.changes)
    words = min(sizes[VOCAB], tiny_vocab(sizes[VOCAB], request.mesh[MODEL]))
    places = {x: min(sizes[x], SHORT) for x in POSITIONS if x in sizes}
    changes = tiny | {VOCAB: words} | places | ({DTYPE: "float32"} if DTYPE in sizes else {})
    return {k: value for k, value in changes.items() if k == DTYPE or value != sizes.get(k)}


def _project_model(
    request: Request,
    model: OwnModel,
    names: ClassNames,
    recipe: Recipe,
    adapter: Adapter | None,
    full: Mapping[str, Any],
    tiny: Mapping[str, Any],
    texts: Mapping[str, str],
) -> ProjectModel:
    sections = ["model", *(one.section for one in recipe.branches if one.section)]
    return ProjectModel(
        title=model.name,
        class_name=names.model,
        config_class=names.config,
        sizes=dict.fromkeys(sections, full) if full else {},
        tiny={**dict.fromkeys(sections, tiny), **(adapter.tiny if adapter else {}), **recipe.tiny},
        branches=recipe.branches,
        maker=recipe.maker,
        head=bool(recipe.head_of(CAUSAL)),
        classes=bool(recipe.classes),
        own_class=model.name,
        printed=True,
        hub=True,
        adapter=adapter,
        whole=recipe.beside_adapter(CAUSAL) if adapter else (),
        drops=adapter is not None,
        stacked=stacked_parts(texts["weights.py"]),
        task=recipe.task or "CAUSAL_LM",
        checkpoint=request.checkpoint,
        format=safetensors_alone(f"llama.cpp opens no {model.name} of redco's"),
    )
