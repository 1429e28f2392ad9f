"""A class of transformers, printed, as a project trains it: by the recipes of what it is for, as a family's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
from flax import nnx

from redco_new.generate.context import ProjectRecipe
from redco_new.generate.design import Design, no_adapter, package_files
from redco_new.generate.own_design import ALL, REMAT, ClassNames
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
from redco_new.models.tiny import tiny_vocab
from redco_new.own.model import OwnModel
from redco_new.pytorch.table import names_in_peft, stacked_parts, tensor_names, unused_positions
from redco_new.render.execute import importable, load_text
from redco_new.render.template import Template
from redco_new.pytorch.kinds import IDS, PIXELS, TARGET_IDS
from redco_new.request import Request
from redco_new.request.own_class import Input
from redco_plan import MODEL

DTYPE = "dtype"  # the field of the config that says what is computed in
VOCAB = "vocab_size"  # the field of the config that recipes of texts read, and those of images
SIDE, CHANNELS, CLASSES = "image_size", "num_channels", "num_classes"
DIGITS = 10  # what the preset tiny of images tells apart
SIDES = (32, 48, 64, 96, 128)  # pixels of their sides, in that preset
FILE = "model.py"
# What configs of transformers call the numbers of a hidden state, and the longest text.
FEATURES = ("hidden_size", "n_embd", "d_model", "dim", "model_dim")
POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
# Those of the tokenizer "bytes", which begins no text with a token of its own.
BYTES = {"start_id": 0, "pad_id": 0, "eos_id": 1, "forced_bos_id": -1, "forced_eos_id": 1}
STILL = (
    "the recipe {recipe} compares what models say, and trains without dropout: {rates} in config.py"
)
SHORT = 256  # tokens that the preset tiny has positions for


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
    if not recipe.pictures and VOCAB not in sizes:
        what = f"{model.name} is printed without its {VOCAB}, which texts are read by"
        raise RedcoError(
            "--model", what, f"give {names.config} that field in {FILE}, or another model"
        )
    unused = unused_positions(texts[FILE])
    places = [sizes[x] - unused for x in POSITIONS if x in sizes][:1]
    length = 0 if recipe.pictures else min([LONGEST, *places])
    full: dict[str, Any] = {DTYPE: request.dtype} if DTYPE in sizes else {}
    rates = {} if recipe.drops else {key: 0.0 for key in rates_in(sizes)}
    full |= rates
    notes = [*notes, *([STILL.format(recipe=recipe.name, rates=", ".join(rates))] if rates else [])]
    tiny = _tiny(request, model, sizes, SHORT + unused) | rates
    if recipe.pictures:
        tiny |= _tiny_pictures(module, names, sizes, tiny)
    tokenizer = request.checkpoint or "bytes"
    features = next((x for x in FEATURES if x in sizes), FEATURES[0])
    printed = recipe.print_files(
        template,
        request.package,
        False,
        adapted=bool(adapter),
        causal=provides >= CAUSAL,
        features=features,
    )
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

    return Design(
        request,
        _project_model(
            request,
            model,
            names,
            recipe,
            provides,
            adapter,
            full,
            tiny,
            texts,
            packs=_packs(model_class),
        ),
        ProjectRecipe.of(
            recipe,
            rate=recipe.adapter_rate if adapter else recipe.rate,
            continues=recipe.name == "lm",
            tokenized=not recipe.pictures,
            tokenizer="" if recipe.pictures else tokenizer,
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


def _tiny(
    request: Request, model: OwnModel, sizes: Mapping[str, Any], longest: int
) -> dict[str, Any]:
    """Return the fields that the preset tiny has otherwise: words for bytes, and positions for its texts."""
    tiny = dict(model.tiny.changes)
    full, words = sizes.get(VOCAB, 0), dict[str, int]()
    if full:
        words[VOCAB] = min(full, tiny_vocab(full, request.mesh[MODEL]))
    places = {x: min(sizes[x], longest) for x in POSITIONS if x in sizes}
    words |= {name: number for name, number in BYTES.items() if name in sizes}
    changes = tiny | words | places | ({DTYPE: "float32"} if DTYPE in sizes else {})
    changes |= {REMAT: ALL} if REMAT in sizes else {}
    return {
        k: value for k, value in changes.items() if k in (DTYPE, REMAT) or value != sizes.get(k)
    }


def _tiny_pictures(
    module: ModuleType, names: ClassNames, sizes: Mapping[str, Any], tiny: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that the preset tiny has otherwise: classes for digits, and the smallest side that the model takes."""
    classes = {} if sizes[CLASSES] == DIGITS else {CLASSES: DIGITS}
    for side in (n for n in SIDES if n < sizes[SIDE]):
        changes = {**tiny, **classes, SIDE: side}
        pixels = jax.ShapeDtypeStruct((1, side, side, sizes[CHANNELS]), "float32")

        def build(pixels: Any, changes: dict[str, Any] = changes) -> Any:
            config = getattr(module, names.config)(**changes)
            return getattr(module, names.model)(config, rngs=nnx.Rngs(0))(pixels)

        try:
            jax.eval_shape(build, pixels)
        except (TypeError, ValueError, ZeroDivisionError):  # too few pixels
            continue
        return {**classes, SIDE: side}
    return classes


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
