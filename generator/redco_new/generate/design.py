"""What a request names, printed: the model and the recipe of a project, and the program to plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redco_new.errors import RedcoError
from redco_new.generate.context import ProjectRecipe
from redco_new.generate.project_model import ProjectModel
from redco_new.models.program import Program
from redco_new.render.owners import owner, with_header
from redco_new.request import Request


@dataclass(frozen=True)
class Design:
    """A model as a project trains it.

    request: what was asked for.
    model, recipe: what the templates of a project print of them.
    files: path -> text of the files of the model and its recipe, with their headers.
    loss: makes the loss of the model whose config has these fields otherwise than by default.
    record: the model, for the manifest; None for an own class.
    stateful: whether a call may change or draw more than its parameters.
    packages: what its code imports besides the packages of every project, as pip has them.
    notes: what its user should know.
    notes_of_a_run: the same, of what only a call tells: asked for where a project is printed.
    tiny: those fields of the preset tiny of an own class.
    """

    request: Request
    model: ProjectModel
    recipe: ProjectRecipe
    files: Mapping[str, str]
    loss: Callable[[Mapping[str, Any]], Program]
    record: Mapping[str, Any] | None = None
    stateful: bool = False
    packages: Sequence[str] = ()
    notes: Sequence[str] = ()
    notes_of_a_run: Callable[[], Sequence[str]] = tuple
    tiny: Mapping[str, Any] = field(default_factory=dict)

    def program(self) -> Program:
        """Return the loss of the full model, which the layout is derived from."""
        return self.loss({})

    @property
    def branches(self) -> tuple[str, ...]:
        """The names of its models, where there are several."""
        return tuple(one.name for one in self.model.branches if not one.scores)

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of further ones, which a run may have: they lie as the first one, with a score."""
        return tuple(one.name for one in self.model.branches if one.scores)

    @property
    def targets(self) -> tuple[str, ...]:
        """Those of its models that follow others, and have no gradients."""
        return tuple(one.name for one in self.model.branches if one.follows)


def package_files(request: Request, texts: Mapping[str, str]) -> dict[str, str]:
    """Return {path: text, with its header} of files in the package, from {name: text}."""
    paths = {f"{request.package}/{name}": text for name, text in texts.items()}
    return {
        path: with_header(path, text, owner(path, request.package)) for path, text in paths.items()
    }


def no_adapter(request: Request) -> RedcoError:
    """Return the error of --lora beside a model whose layers have no names that are known."""
    what = f"{request.model_name} is no model of texts that redco can write with adapters"
    todo = "leave it out; a class of your own may have its own adapters"
    return RedcoError("--lora", what, todo)
