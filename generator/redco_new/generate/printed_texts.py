"""A class of transformers, printed, as a project trains it: by the recipes of what it is for, as a family's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, no_adapter, package_files
from redco_new.generate.own_design import REMAT, ClassNames
from redco_new.generate.printed_tiny import (
    DTYPE,
    POSITIONS,
    SHORT,
    VOCAB,
    tiny_fields,
    tiny_pictures,
)
from redco_new.generate.project_model import ProjectModel
from redco_new.generate.recipe_program import Built, recipe_program
from redco_new.errors import RedcoError
from redco_new.models.adapter import Adapter, choose_adapter, linear_layers
from redco_new.models.decoders import LONGEST
from redco_new.models.dropout import rates_in
from redco_new.models.family import CAUSAL, ENCODER_DECODER, IMAGES, MASKED
from redco_new.models.gguf import safetensors_alone
from redco_new.models.program import Program
from redco_new.models.recipes import Recipe, choose_recipe
from redco_new.own.model import OwnModel
from redco_new.pytorch.table import names_in_peft, stacked_parts, tensor_names, unused_positions
from redco_new.render.execute import importable, load_text
from redco_new.render.template import Template
from redco_new.pytorch.kinds import IDS, PIXELS, TARGET_IDS
from redco_new.request import Request
from redco_new.request.own_class import Input

FILE = "model.py"
# What configs of transformers call the numbers of a hidden state.
FEATURES = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
STILL = (
    "the recipe {recipe} compares what models say, and trains without dropout: {rates} in config.py"
)


# What a class of transformers provides -> the recipe that it is usually trained by.
USUAL = {CAUSAL: "lm", MASKED: "mlm", IMAGES: "image", ENCODER_DECODER: "seq2seq"}
# What PEFT calls what it does.
TASKS = {CAUSAL: "CAUSAL_LM", ENCODER_DECODER: "SEQ_2_SEQ_LM"}


@dataclass(frozen=True)
class HubClass:
    """What a recipe asks of a class of transformers.

    provides: signatures of the printed class
    """

    provides: frozenset[str]

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipe that it is usually trained by."""
        return tuple(name for needs, name in USUAL.items() if needs <= self.provides)[:1]

    def choose(self, request: Request, name: str) -> Recipe:
        """Return the recipe that a request asks for. Raises RedcoError. name: of the class"""
        recipe = choose_recipe(self, request.recipe, name, request.loss)
        if recipe.teacher:
            what = f"{recipe.name} makes a smaller model of the same kind, and {name} is printed in one size"
            raise RedcoError("--recipe", what, "choose another")
        if recipe.head and not self.provides >= CAUSAL:
            what = f"{recipe.name} puts a head on {name}, of which checkpoints have no names"
            raise RedcoError("--recipe", what, f"choose {self.recipes[0]}")
        if request.lora and not self.provides >= CAUSAL:
            raise no_adapter(request)
        return recipe


def provided(model_class: Any) -> frozenset[str]:
    """Return the signatures of a printed class that recipes may call, () for one that is called as its forward."""
    signatures = {
        f"{name}({', '.join(_required(method))})"
        for name, method in inspect.getmembers(model_class, inspect.isfunction)
    }
    return frozenset[str]().union(*(needs for needs in USUAL if needs <= signatures))


def _packs(model_class: Any) -> bool:
    """Return whether texts may share a row of a printed class: of one whose rows are one text, `hidden` takes None for segments."""
    hidden = inspect.signature(getattr(model_class, "hidden", model_class)).parameters
    return "segments_BS" not in hidden or hidden["segments_BS"].annotation is not None


def _required(method: Any) -> list[str]:
    parameters = [*inspect.signature(method).parameters.values()][1:]
    return [x.name for x in parameters if x.default is x.empty]


def printed_inputs(model_class: Any, own: Mapping[str, Input]) -> dict[str, Input]:
    """Return the inputs of a printed class that recipes call. own: of its forward in PyTorch"""
    if IMAGES <= provided(model_class):
        channels, *sides = own[PIXELS].shape
        return {"pixels_BHWC": Input((*sides, channels))}
    ids = own[IDS]
    inputs = {"input_ids_BS": ids, "mask_BS": Input(ids.shape, "bool")}
    inputs |= {"decoder_ids_BT": own[TARGET_IDS]} if TARGET_IDS in own else {}
    return {name: inputs[name] for name in _required(model_class.__call__)}


def hub_design(
    request: Request,
    template: Template,
    model: OwnModel,
    names: ClassNames,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Design:
    """Return a class of transformers as a recipe of what it is for trains it. Raises RedcoError.

    model: the printed class, made and called
    names: of the classes of model.py
    texts: name -> text of model.py and weights.py
    """
    module = load_text(f"{request.package}/{FILE}", texts[FILE])
    model_class = getattr(module, names.model)
    provides = provided(model_class)
    recipe = HubClass(provides).choose(request, model.name)
    adapter = _adapter(request, model, recipe, texts)
    recipe = recipe.adapted() if adapter else recipe
    sizes = dict(vars(getattr(module, names.config)()))
    unused = unused_positions(texts[FILE])
    length = 0 if recipe.pictures else _length(model, names, sizes, unused)
    full: dict[str, Any] = {DTYPE: request.dtype} if DTYPE in sizes else {}
    rates = {} if recipe.drops else {key: 0.0 for key in rates_in(sizes)}
    full |= rates
    notes = [*notes, *([STILL.format(recipe=recipe.name, rates=", ".join(rates))] if rates else [])]
    tiny = tiny_fields(request, model, sizes, unused) | rates
    if recipe.pictures:
        tiny |= tiny_pictures(module, names, sizes, tiny)
    facts: dict[str, Any] = {"adapted": bool(adapter), "causal": provides >= CAUSAL}
    facts["features"] = next((x for x in FEATURES if x in sizes), FEATURES[0])
    printed = recipe.print_files(template, request.package, False, **facts)
    files = package_files(request, {**texts, **printed})

    def program(changes: Mapping[str, Any]) -> Program:
        path = f"{request.package}/model.py"
        with importable(request.folder, request.package):
            module = load_text(str(request.folder.resolve() / path), files[path])
        classes = getattr(module, names.model), getattr(module, names.config)
        built = Built(*classes, {**sizes, **full, **changes}, {**full, **changes}, provides)
        return recipe_program(
            request, built, recipe, adapter, files, min(length, SHORT) if changes else length
        )

    packs = _packs(model_class)
    project_model = _project_model(
        request, model, names, recipe, provides, adapter, full, tiny, texts, packs
    )
    return Design(
        request,
        project_model,
        _project_recipe(request, recipe, bool(adapter), length),
        files,
        program,
        stateful=model.stateful,
        packages=(*recipe.packages, "transformers>=5"),
        notes=[*model.notes, *notes],
        tiny=tiny,
    )


def _length(model: OwnModel, names: ClassNames, sizes: Mapping[str, Any], unused: int) -> int:
    """Return the tokens of a text of a run, at most LONGEST. Raises RedcoError for a model without words.

    unused: how many of its positions no text has
    """
    if VOCAB not in sizes:
        what = f"{model.name} is printed without its {VOCAB}, which texts are read by"
        raise RedcoError(
            "--model", what, f"give {names.config} that field in {FILE}, or another model"
        )
    places = [sizes[x] - unused for x in POSITIONS if x in sizes][:1]
    return min([LONGEST, *places])


def _project_recipe(request: Request, recipe: Recipe, adapted: bool, length: int) -> ProjectRecipe:
    return ProjectRecipe.of(
        recipe,
        rate=recipe.adapter_rate if adapted else recipe.rate,
        continues=recipe.name == "lm",
        tokenized=not recipe.pictures,
        tokenizer="" if recipe.pictures else request.checkpoint or "bytes",
        sequence_length=length,
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


def _project_model(
    request: Request,
    model: OwnModel,
    names: ClassNames,
    recipe: Recipe,
    provides: frozenset[str],
    adapter: Adapter | None,
    full: Mapping[str, Any],
    tiny: Mapping[str, Any],
    texts: Mapping[str, str],
    packs: bool,
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
        head=bool(recipe.head_of(provides)),
        classes=bool(recipe.classes),
        own_class=model.name,
        printed=True,
        saves=REMAT in tiny,
        hub=True,
        packing="on" if packs else "off",
        adapter=adapter,
        whole=recipe.beside_adapter(provides) if adapter else (),
        drops=adapter is not None or model.drops,
        stacked=stacked_parts(texts["weights.py"]),
        task=recipe.task or next((x for needs, x in TASKS.items() if needs <= provides), ""),
        modules=names_in_peft(texts["weights.py"]),
        checkpoint=request.checkpoint,
        format=safetensors_alone(f"llama.cpp opens no {model.name} of redco's"),
    )
