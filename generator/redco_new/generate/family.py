"""A project of a model family: the text of its files, and its loss at full size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flax import nnx

from redco_new.render.owners import YOURS, with_header
from redco_new.render.python import print_call
from redco_new.models.program import Program
from redco_new.request import Request
from redco_new.sharding.axes import MODEL
from redco_new.render.execute import load_text
from redco_new.models.find import Model, find_model
from redco_new.models.recorded import recall, record
from redco_new.models.recipes import Recipe, choose_recipe, loss_and_batch


@dataclass(frozen=True)
class FamilyDesign:
    """What a request names: a model of a family, and how it is trained."""

    request: Request
    template: Path
    model: Model
    recipe: Recipe

    @property
    def recorded(self) -> dict[str, Any]:
        return record(self.model, *asked(self.request))

    @property
    def notes(self) -> Sequence[str]:
        if not self.model.absent:
            return ()
        return [f"{self.request.model} is not here: its config.json is that of the last update"]

    @property
    def sequence_length(self) -> int:
        """Tokens: the full model's; with sequence parallelism, a multiple of what splits them."""
        length, shards = self.model.full.sequence_length, self.request.mesh[MODEL]
        return length - length % shards if self.request.sequence_parallel else length

    def facts(self) -> dict[str, Any]:
        """What the templates of a project print of it."""
        model, recipe = self.model, self.recipe
        config_class = model.family.config_class
        return {
            "recipe": recipe.name,
            "words": asdict(recipe.words),
            "continues": recipe.name == "lm",
            "scored": bool(recipe.train),
            "tokenized": "tokenizer" in recipe.tiny.get("data", {}),
            "own": "",
            "stateful": False,
            "model_class": model.family.model_class,
            "config_class": config_class,
            "config_default": f'lambda: {config_class}(dtype="{self.request.dtype}")',
            "title": model.title,
            "data_class": recipe.data(self.template, model.tokenizer, self.sequence_length),
            "train_lines": recipe.train,
            "packages": recipe.packages,
            "tiny": self.tiny(),
        }

    def tiny(self) -> dict[str, str]:
        """section of config.py -> its value in the preset `tiny`, as Python."""
        model, sections = self.model, self.recipe.tiny
        assert model.tiny.quirks == model.full.quirks, "a tiny model must be of the same kind"
        sizes = {k: v for k, v in model.tiny.sizes.items() if v != model.full.sizes[k]}
        settings = sizes | {"dtype": "float32", "remat": "everything_saveable"}
        calls = {"model": print_call(model.family.config_class, settings)}
        return calls | {k: print_call(k.capitalize(), fields) for k, fields in sections.items()}

    def files(self) -> dict[str, str]:
        """The files of the model and its recipe, which are taken as they are: path -> text."""
        files = dict(map(self.text, ("model.py", "weights.py")))
        files[f"{self.request.package}/pipeline.py"] = self.recipe.pipeline(self.template)
        return files

    def text(self, file: str) -> tuple[str, str]:
        """(path in the project, text) of a file of the model: model.py or weights.py."""
        package = self.request.package
        return f"{package}/{file}", self.model.print_file(self.template, package, file)

    def program(self, rows: int) -> Program:
        """The loss of the full model, of a batch of so many rows."""
        family = self.model.family
        path, text = self.text("model.py")
        # With its header, so that its lines are the project's.
        module = load_text(path, with_header(path, text, YOURS))
        config = getattr(module, family.config_class)(dtype=self.request.dtype)
        build = getattr(module, family.model_class)
        loss, batch = loss_and_batch(
            self.recipe, self.template, rows, self.model.full.sizes, self.sequence_length
        )
        return Program(lambda: build(config, rngs=nnx.Rngs(0)), loss, batch)


def asked(request: Request) -> tuple[str, str, int, Path]:
    """What a model follows from: its name, its size, the shards, the folder that paths are relative to."""
    return request.model, request.size, request.mesh[MODEL], request.folder


def find_family(request: Request, template: Path) -> FamilyDesign:
    """What `request` names. Raises RedcoError where there is no such thing."""
    known = request.recorded
    model = recall(known, *asked(request)) or find_model(
        *asked(request), source=(known or {}).get("source")
    )
    recipe = choose_recipe(model.family, request.recipe, request.model)
    return FamilyDesign(request, template, model, recipe)
