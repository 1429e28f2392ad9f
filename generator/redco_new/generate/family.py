"""A project of a model family: its files, printed from the family's templates, and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx

from redco_new.generate.context import ProjectModel, ProjectRecipe
from redco_new.generate.design import Design, package_files
from redco_new.generate.layout import traced_rows
from redco_new.models.adapter import (
    Adapter,
    adapter_filter,
    adapter_parameters,
    choose_adapter,
    linear_layers,
)
from redco_new.models.branches import (
    copies_of_first,
    MAIN,
    default_config,
    section_changes,
    trained_filter,
    trained_parameters,
)
from redco_new.models.family import CAUSAL
from redco_new.models.find import Model, find_model, is_checkpoint
from redco_new.models.dropout import dropout_notes, with_dropout
from redco_new.models.hf_config import TRANSFORMERS
from redco_new.models.program import Program
from redco_new.models.recipes import Recipe, choose_recipe, pipeline_and_batch
from redco_new.models.recorded import recall, record
from redco_new.render.execute import load_text
from redco_new.render.python import print_call, print_data, print_sections
from redco_new.render.template import Template
from redco_new.request import Lora, Request, is_folder
from redco_plan import MODEL

# Of a project that trains an adapter: which parameters are matrices.
LORA: dict[str, Any] = {
    "matrices": ("lora_a", "lora_b"),
    "inner_matrices": 'path[-1].key in ("lora_a", "lora_b")',
}
# Of a project whose pipeline.py puts a head on the model: which is no matrix inside it.
HEAD: dict[str, Any] = {
    "weights": "pipeline.head_weights(run.config, weights)",
    "inner_matrices": 'path[-1].key == "kernel" and "score" not in [x.key for x in path]',
}
# Of a project whose recipe is about classes of the model itself.
CLASSES = "pipeline.class_names(run.config), run.config.model.num_classes"
TINY_BLOCKS = {"lora_block": 4}  # so that they divide over devices where larger matrices' do


def read_family(request: Request, template: Template) -> Design:
    """Return the model of a family that `request` names. Raises RedcoError if there is none."""
    key = (request.model, request.size, request.mesh[MODEL], request.folder)
    recorded = request.recorded
    source = (recorded or {}).get("source")
    model = recall(recorded, *key) or find_model(*key, source=source)
    recipe = choose_recipe(model.family, request.recipe, request.model)
    recorded = record(model, *key)
    model = with_dropout(model, request, recipe)
    length = _sequence_length(request, model)
    if request.lora:
        recipe = recipe.adapted()
    texts = model.print_files(template, request.package)
    adapter = _adapter(request, model, recipe, texts)
    causal = model.family.provides >= CAUSAL
    facts = (request.package, model.tokenizer, length, model.family.routed)
    kind: dict[str, Any] = {
        "adapted": request.lora is not None,
        "causal": causal,
        "head_rate": model.head_rate,
    }
    texts |= recipe.print_files(template, *facts, **kind)
    data_class = texts.pop("data.py")
    files = package_files(request, texts)
    return Design(
        request,
        _model_context(request, model, recipe, adapter),
        _recipe_context(recipe, model, data_class, adapter),
        files,
        lambda: _program(request, model, recipe, adapter, files, length),
        recorded,
        packages=(*recipe.packages, f"transformers>={TRANSFORMERS}"),
        notes=_notes(request, model, recipe),
        branches=tuple(branch.name for branch in recipe.branches if not branch.scores),
        scores=tuple(branch.name for branch in recipe.branches if branch.scores),
    )


def _adapter(
    request: Request, model: Model, recipe: Recipe, texts: Mapping[str, str]
) -> Adapter | None:
    """Return what --lora asks for, if it does. Raises RedcoError."""
    if not request.lora:
        return None
    linear = linear_layers(model.family, request.package, texts)
    return choose_adapter(linear, request.lora, request.model, recipe.classes)


def _sequence_length(request: Request, model: Model) -> int:
    """Return the full model's tokens; with sequence parallelism, a multiple of what splits them."""
    length, shards = model.full.sequence_length, request.mesh[MODEL]
    return length - length % shards if request.sequence_parallel else length


def _notes(request: Request, model: Model, recipe: Recipe) -> list[str]:
    notes = []
    if model.absent:
        notes.append(f"{request.model} is not here: its config.json is that of the last update")
    return notes + dropout_notes(model, request, recipe)


def _model_context(
    request: Request, model: Model, recipe: Recipe, adapter: Adapter | None
) -> ProjectModel:
    name, config_class = model.family.model_class, model.family.config_class
    changes = section_changes(recipe.branches, model.full.sizes)
    defaults = {
        section: f"lambda: {print_call(config_class, {'dtype': request.dtype, **others})}"
        for section, others in changes.items()
    }
    several = [branch for branch in recipe.branches if branch.section]
    one = "adapted" if adapter else name
    make = f"pipeline.{recipe.maker}({one}, config" if recipe.maker else f"{one}(config.model"
    return ProjectModel(
        title=model.title,
        class_name=name,
        config_class=config_class,
        config_default=defaults.pop(MAIN),
        make=f"{make}, rngs=nnx.Rngs(key))",
        sections=defaults,
        branch=several[0].name if several else "",
        adapter=adapter,
        labels=CLASSES if recipe.classes else "",
        checkpoint=_print_checkpoint(request.model),
        task=recipe.task or model.family.task,
        modules=model.family.modules,
        drops=adapter is not None or bool(model.context(request.package).rates),
        bias_tables=() if request.lora else model.family.bias_tables,
        **_trained(recipe, model.family.provides, request.lora),
    )


def _print_checkpoint(name: str) -> str:
    """Return Python of where a checkpoint is, "" for a family. A relative path is from the project's folder."""
    if not is_folder(name):
        return print_data(name) if is_checkpoint(name) else ""
    if name.startswith("~"):
        return f"str(Path({print_data(name)}).expanduser())"
    return f"str((Path(__file__).parents[1] / {print_data(name)}).resolve())"


def _trained(recipe: Recipe, provides: frozenset[str], lora: Lora | None) -> dict[str, Any]:
    """Return fields of ProjectModel: what is trained of a model with these signatures, and which are matrices."""
    facts = HEAD if recipe.head_of(provides) else {}
    if lora is None:
        return facts | {"trained": trained_filter(recipe.branches)}
    whole = recipe.beside_adapter(provides)
    facts = facts | LORA | {"whole": whole, "trained": adapter_filter(whole)}
    return facts | ({"matrices": (*LORA["matrices"], "kernel")} if whole else {})


def _recipe_context(
    recipe: Recipe, model: Model, data_class: str, adapter: Adapter | None
) -> ProjectRecipe:
    rate = recipe.adapter_rate if adapter else recipe.rate
    return ProjectRecipe(
        name=recipe.name,
        words=recipe.words,
        data_class=data_class,
        perplexity=recipe.perplexity,
        writes=recipe.writes,
        named=recipe.named,
        prompt_fields=recipe.prompt_fields,
        tiny=_tiny_preset(recipe, model, adapter),
        train_lines=recipe.train_lines,
        rate=rate.python,
        rate_reason=rate.reason,
        smooths=recipe.smooths,
        continues=recipe.name in ("lm", "distillation"),
        system=recipe.system,
        routed=model.family.routed,
        tokenized="tokenizer" in recipe.tiny.get("data", {}),
        teacher=recipe.teacher,
        actors=recipe.actors,
        terms=recipe.terms,
    )


def _tiny_preset(recipe: Recipe, model: Model, adapter: Adapter | None) -> dict[str, str]:
    """Return section of config.py -> its value in the preset `tiny`, as Python."""
    assert model.tiny.quirks == model.full.quirks, "a tiny model must be of the same kind"
    sizes = {k: v for k, v in model.tiny.sizes.items() if v != model.full.sizes[k]}
    settings = sizes | {"dtype": "float32", "remat": "everything_saveable"}
    changes = section_changes(recipe.branches, model.tiny.sizes)
    config = model.family.config_class
    fields = {name: (config, settings | others) for name, others in changes.items()}
    if adapter and adapter.lora.base:
        fields["lora"] = (adapter.class_name, adapter.settings | TINY_BLOCKS)
    return print_sections(fields | {k: (k.capitalize(), v) for k, v in recipe.tiny.items()})


def _program(
    request: Request,
    model: Model,
    recipe: Recipe,
    adapter: Adapter | None,
    files: Mapping[str, str],
    length: int,
) -> Program:
    """Return the loss of the full model, by the code that the project has."""
    path = f"{request.package}/model.py"
    module = load_text(path, files[path])
    config_class = getattr(module, model.family.config_class)
    model_class = getattr(module, model.family.model_class)
    changes = section_changes(recipe.branches, model.full.sizes)
    sections = {k: config_class(**{"dtype": request.dtype} | sizes) for k, sizes in changes.items()}
    text, rows = files[f"{request.package}/pipeline.py"], traced_rows(request)
    pipeline, batch = pipeline_and_batch(recipe, text, rows, model.full.sizes, length)

    put = {"put": adapter.put} if adapter else {}

    def build(sizes: Any, *, rngs: nnx.Rngs) -> nnx.Module:
        one: nnx.Module = model_class(sizes, rngs=rngs)
        return adapter.put(one, rngs) if adapter else one

    def make() -> nnx.Module:
        if recipe.maker:
            config = default_config(sections, recipe.train)
            models: nnx.Module = getattr(pipeline, recipe.maker)(build, config, rngs=nnx.Rngs(0))
            return models
        return build(sections[MAIN], rngs=nnx.Rngs(0))

    whole = recipe.beside_adapter(model.family.provides)
    trained = adapter_parameters(whole) if request.lora else trained_parameters(recipe.branches)
    copies = copies_of_first(recipe.branches)
    return Program(make, pipeline.loss, batch, model.family.routed, trained, **put, copies=copies)
