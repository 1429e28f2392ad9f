"""A project of a PyTorch class: its model.py is printed once, and its user's from then on."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, get_type_hints

import jax
from flax import nnx
from jax.tree_util import DictKey

from redco_new.errors import RedcoError
from redco_new.generate.design import Design, no_adapter
from redco_new.generate.hub_class import as_json
from redco_new.generate.plan import most_parts
from redco_new.generate.own_design import ALL, REMAT, ClassNames, own_design
from redco_new.generate.printed_texts import (
    DTYPE,
    HubClass,
    hub_design,
    printed_inputs,
    provided,
)
from redco_new.models.hf_config import (
    TEXT_ALONE,
    checkpoint_config,
    import_transformers,
    names_within,
)
from redco_new.own.build import ROWS
from redco_new.own.call import Call, read_plain
from redco_new.own.find import Reference, class_name
from redco_new.models.family import CAUSAL, ENCODER_DECODER, IMAGES, MASKED
from redco_new.models.recipes import RECIPES as HUB_RECIPES
from redco_new.own.model import Usage, OwnModel, find_own, read_usage
from redco_new.own.outputs import check_outputs
from redco_new.own.recipes import RECIPES, find_recipe
from redco_new.pytorch.install import check_versions
from redco_new.pytorch.kinds import provided_as_printed
from redco_new.pytorch.printed import PrintedClass
from redco_new.pytorch.table import table_source
from redco_new.render.execute import importable, load_text
from redco_new.render.template import Template
from redco_new.request import TORCH, Request
from redco_new.request.own_class import Input

MODEL = "model.py"
SCORED = "ForSequenceClassification"  # as the runtime's nn/heads/scores.py calls what it exports
NO_HEAD = (
    "transformers has no {whole}: what `export` writes of {recipe} is opened by `--init` and `predict` of this project,"
    " and not by from_pretrained"
)
# What a printed class provides -> the recipe of own classes whose outputs it has.
TRACED_BY = {CAUSAL: "lm", MASKED: "lm", IMAGES: "classify", ENCODER_DECODER: "seq2seq"}


def print_torch(
    request: Request, reference: Reference, template: Template, progress: Callable[[str], None]
) -> Design:
    """Return a class of PyTorch, printed. Raises RedcoError where that cannot be, or is not the same."""
    assert request.own
    check_versions(reference)
    from redco_new.pytorch.make import print_class  # late: it imports torch, which takes seconds

    usage = read_usage(reference, request.own, request.folder, "forward")
    by_hub = _check_recipe(request, reference, usage)
    progress(f"printing {reference.name}, and comparing it with PyTorch")
    arguments = as_json(usage.arguments) if request.of_transformers else usage.arguments
    check = partial(_check_outputs, request.recipe, reference.name, usage.call.inputs)
    printed = print_class(
        reference, usage.where, arguments, usage.call, by_hub, None if by_hub else check
    )
    recipe = request.recipe
    if by_hub and not printed.hub:  # it is called as its forward
        recipe = find_recipe(recipe or "lm").name
        if request.lora:
            raise no_adapter(request)
    if request.checkpoint and printed.unread:
        what = f"checkpoints of {printed.name} store {printed.unread[0]} in another form, which redco does not read"
        raise RedcoError("--model", what, "give a model that is one of redco's families")
    own = replace(request.own, inputs=read_plain(usage.where, usage.call.arguments))
    request = replace(request, via=TORCH, own=own, recipe=recipe)
    names = ClassNames(printed.model_class, printed.config_class)
    model = _find_model(request, names, _load(request, printed.source), usage.where)
    tiny = model.tiny.changes
    within = names_within(_config_of(request))
    source = table_source(request.package, printed, bool(tiny), within)
    folder = "own/printed_texts" if printed.hub else "own/printed"
    texts = {MODEL: printed.source, **template.print_folder(folder, source)}
    notes = [_describe_gate(printed), *printed.notes]
    if within:
        notes.append(TEXT_ALONE.format(name=request.checkpoint, architecture=printed.name))
    if printed.hub:
        notes += notes_of_head(recipe, reference.name)
        return hub_design(request, template, model, names, texts, notes)
    return _own(request, template, model, names, texts, notes)


def notes_of_head(recipe: str, name: str) -> list[str]:
    """Return a note where transformers has no class that a recipe's head on a decoder, by its name, makes of it: nothing opens what is exported."""
    kind = HUB_RECIPES.get(recipe)
    whole = f"{name.removesuffix('LMHeadModel').removesuffix('ForCausalLM')}{SCORED}"
    if not (kind and kind.head) or hasattr(import_transformers(name), whole):
        return []
    return [NO_HEAD.format(recipe=recipe, whole=whole)]


def _config_of(request: Request) -> Mapping[str, Any]:
    """Return the keys of the config.json of the checkpoint that a class is of; {} where it is of none."""
    if not request.checkpoint:
        return {}
    return checkpoint_config(request.checkpoint, request.folder, None)[0]


def read_printed(request: Request, template: Template) -> Design:
    """Return the class that was printed as its user has it by now. Raises RedcoError, with the line."""
    assert request.own
    name = request.model.rpartition(":")[2]
    module = _load(request, request.printed[MODEL])
    names = _find_names(request, module, name)
    model = _find_model(request, names, module, request.own.source)
    if _provided(request, module, names):
        return hub_design(request, template, model, names, request.printed)
    return _own(request, template, model, names, request.printed)


def _own(
    request: Request,
    template: Template,
    model: OwnModel,
    names: ClassNames,
    texts: Mapping[str, str],
    notes: Sequence[str] = (),
) -> Design:
    """Return a class as an own recipe trains it: in --dtype, if transformers has it, and the preset tiny in float32."""
    config = getattr(_load(request, texts[MODEL]), names.config)
    has_dtype = request.of_transformers and DTYPE in config.__dataclass_fields__
    saves = REMAT in config.__dataclass_fields__
    full, exact = ({DTYPE: request.dtype}, {DTYPE: "float32"}) if has_dtype else ({}, {})
    tiny = {**model.tiny.changes, **exact, **({REMAT: ALL} if saves else {})}
    return own_design(request, template, model, names, texts, full, tiny, notes, saves)


def _describe_gate(printed: PrintedClass) -> str:
    """Return how near the printed class is to that of PyTorch, for people."""
    gate, source = printed.gate, ", ".join(printed.requires)
    rounded = "" if gate.rounded is None else f", {gate.rounded:.1f} times its error in bfloat16"
    double = " in float64" if gate.dtype == "float64" else ""
    return (
        f"{printed.name} is printed from {source}, and computes as there{double}: outputs within"
        f" {gate.outputs:.0e} of the largest, gradients within {gate.gradients:.0e}{rounded}"
    )


def _load(request: Request, text: str) -> ModuleType:
    with importable(request.folder, request.package):
        return load_text(f"{request.package}/{MODEL}", text)


def _find_names(request: Request, module: ModuleType, name: str) -> ClassNames:
    """Return the classes of model.py. Raises RedcoError where the model has another name."""
    name = name if hasattr(module, name) else class_name(name)
    model_class = getattr(module, name, None)
    where = f"{request.package}/{MODEL}"
    if not (isinstance(model_class, type) and issubclass(model_class, nnx.Module)):
        what = f"it defines no class {name} of nnx.Module, which steps.py builds"
        raise RedcoError(where, what, f"name the class so, or add {name} = ...")
    config = get_type_hints(model_class.__init__).get("config")
    if not (isinstance(config, type) and dataclasses.is_dataclass(config)):
        what = f"{name} takes no `config` of a dataclass, whose fields are its settings"
        raise RedcoError(where, what, f"write def __init__(self, config: {name}Config, *, rngs)")
    return ClassNames(name, config.__name__)


def _find_model(request: Request, names: ClassNames, module: ModuleType, where: str) -> OwnModel:
    """Return the class of model.py, made and called: its arguments are the fields of its config."""
    assert request.own
    config_class = getattr(module, names.config)
    maker = _maker(getattr(module, names.model), config_class)
    reference = Reference(maker, names.model, request.package, f"{request.package}/{MODEL}")
    inputs = Call(request.own.inputs).inputs
    if provides := _provided(request, module, names):
        inputs = printed_inputs(getattr(module, names.model), inputs)
    usage = Usage({}, Call(inputs), where)
    fields = {field.name for field in dataclasses.fields(config_class)}
    # A flag of train.py is no name of a field: an argument `seed` is model_seed there.
    tiny = {k if k in fields else f"model_{k}": value for k, value in request.own.tiny.items()}
    own, parts = replace(request.own, tiny=tiny), most_parts(request)
    traced_by = next((name for needs, name in TRACED_BY.items() if needs <= provides), "")
    recipe = traced_by if provides else request.recipe
    return find_own(reference, usage, recipe, own, request.name, parts, printed=True)


def _check_recipe(request: Request, reference: Reference, usage: Usage) -> bool:
    """Return whether recipes train a class as those of a family. Raises RedcoError for one that trains none of it.

    It is asked before anything is printed, which takes a minute.
    """
    cls, inputs = reference.value, usage.call.inputs
    provides = provided_as_printed(cls, inputs) if request.of_transformers else frozenset[str]()
    only_own = request.recipe in RECIPES.keys() - HUB_RECIPES.keys()
    if not provides or only_own and not provides >= CAUSAL:
        find_recipe(request.recipe)
        if request.lora:
            raise no_adapter(request)
        return False
    HubClass(provides).choose(request, reference.name)
    return True


def _check_outputs(
    recipe: str, name: str, inputs: Mapping[str, Input], shapes: Mapping[Any, Any]
) -> None:
    """Raise Untrained where a recipe trains none of what a class gives. shapes: as `shapes_of` has them"""
    outputs = {
        tuple(map(DictKey, keys)): jax.ShapeDtypeStruct(
            [ROWS if n is None else n for n in shape], x
        )
        for keys, (shape, x) in shapes.items()
    }
    check_outputs(find_recipe(recipe), name, inputs, outputs)


def _provided(request: Request, module: ModuleType, names: ClassNames) -> frozenset[str]:
    """Return the signatures that recipes may call of a class of transformers; none of one that is called as its forward."""
    return provided(getattr(module, names.model)) if request.of_transformers else frozenset()


def _maker(
    model_class: Callable[..., nnx.Module], config_class: type[Any]
) -> Callable[..., nnx.Module]:
    """Return what makes the model of the fields of its config, by name."""

    def make(*, rngs: nnx.Rngs, **fields: Any) -> nnx.Module:
        return model_class(config_class(**fields), rngs=rngs)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(field.name, kind, default=field.default)
        for field in dataclasses.fields(config_class)
    ]
    rngs = inspect.Parameter("rngs", kind)
    make.__signature__ = inspect.Signature([*parameters, rngs])  # type: ignore[attr-defined]
    return make
