"""A project of a class of the user's own: the text of its files, and its loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flax import nnx

from redco_new.errors import RedcoError
from redco_new.render.owners import YOURS, with_header
from redco_new.render.python import print_call
from redco_new.models.program import Program
from redco_new.request import Request
from redco_new.render.execute import load_text
from redco_new.own.model import OwnModel, find_own
from redco_new.own.recipes import TINY
from redco_new.models.recipes import Words

WORDS = Words(
    learns="on examples that `pipeline.py` makes up: read yours there",
    loss="the loss",
    sample="what becomes of a few held-out examples",
    prompt="0",
    predicts="shows a held-out example, by its number",
    data="change `examples` in `pipeline.py`",
)


@dataclass(frozen=True)
class OwnDesign:
    """What a request names: a class of the user's own, and how it is trained."""

    request: Request
    template: Path
    model: OwnModel
    recorded = None
    notes = ()

    def facts(self) -> dict[str, Any]:
        """What the templates of a project print of it."""
        return {
            "recipe": self.model.recipe.name,
            "words": asdict(WORDS),
            "continues": False,
            "scored": False,
            "tokenized": False,
            "own": self.model.name,
            "stateful": self.model.stateful,
            "model_class": self.model.source.model_class,
            "config_class": self.model.source.config_class,
            "config_default": self.model.source.config_class,
            "title": self.model.name,
            "data_class": self.model.text(self.template, "data"),
            "train_lines": (),
            "packages": (),
            "tiny": {k: print_call(k.capitalize(), fields) for k, fields in TINY.items()},
        }

    def files(self) -> dict[str, str]:
        """The files of the model and its recipe, which are taken as they are: path -> text."""
        texts = {"model.py": "model", "pipeline.py": self.model.recipe.name}
        return {
            f"{self.request.package}/{file}": self.model.text(self.template, name)
            for file, name in texts.items()
        }

    def program(self, rows: int) -> Program:
        """The loss of the class, of a batch of so many rows."""
        model, pipeline = (self.load(path, text) for path, text in self.files().items())
        names = self.model.source
        config, build = getattr(model, names.config_class), getattr(model, names.model_class)
        return Program(
            lambda: build(config(), rngs=nnx.Rngs(0)), pipeline.loss, self.model.batch(rows)
        )

    def load(self, path: str, text: str) -> Any:
        """A file of the project, imported as if it were there."""
        place = self.request.folder.resolve() / path
        return load_text(str(place), with_header(path, text, YOURS))


def find_own_design(request: Request, template: Path) -> OwnDesign:
    """What `request` names. Raises RedcoError where there is no such thing."""
    model = find_own(request.model, request.recipe, request.own, request.name, request.folder)
    if request.size:
        what = f"{model.name} has the size that its arguments say"
        raise RedcoError("--size", what, "leave it out")
    if request.sequence_parallel:
        what = f"{model.name} does not name its activations, which it is about"
        raise RedcoError("--sequence-parallel", what, "leave it out")
    return OwnDesign(request, template, model)
