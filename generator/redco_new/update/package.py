"""The package of a project, imported for a while."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from flax import nnx

from redco_new.errors import RedcoError
from redco_new.sharding import error_location, error_message

PRESET = "full"


@dataclass(frozen=True)
class Package:
    """The modules of a project, imported. name: of the package.  weights: None for an own class."""

    name: str
    model: ModuleType
    config: ModuleType
    pipeline: ModuleType
    weights: ModuleType | None
    steps: str

    @property
    def full(self) -> Any:
        """The configuration that the layout is made for. Raises RedcoError."""
        try:
            return self.config.PRESETS[PRESET]
        except (AttributeError, KeyError, TypeError) as error:
            what = f"it has no PRESETS[{PRESET!r}], the model that sharding.py is made for"
            raise RedcoError(self.path("config"), what, "bring it back") from error

    def model_class(self, name: str) -> type[nnx.Module]:
        """The class `name` of model.py, or what steps.py imports in its place. Raises RedcoError."""
        if hasattr(self.model, name):
            return getattr(self.model, name)
        found = [
            value
            for node in ast.walk(ast.parse(self.steps))
            if isinstance(node, ast.ImportFrom) and node.module == f"{self.name}.model"
            for value in [getattr(self.model, node.names[0].name, None)]
            if isinstance(value, type) and issubclass(value, nnx.Module)
        ]
        if len(found) == 1:
            return found[0]
        todo = f"name the class so, or add {name} = ..."
        raise RedcoError(self.path("model"), f"it defines no {name}, which steps.py builds", todo)

    def path(self, module: str) -> str:
        return f"{self.name}/{module}.py"


@contextmanager
def imported(project: Path, name: str) -> Iterator[Package]:
    """The package `name` of the folder `project`, which can be used within this context alone.

    Raises RedcoError where it cannot be imported.
    """
    before = taken_out(name)
    sys.path.insert(0, str(project))
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    folder = project / name
    try:
        modules = [_import(f"{name}.{each}") for each in ("model", "config", "pipeline")]
        weights = _import(f"{name}.weights") if (folder / "weights.py").exists() else None
        steps = folder / "steps.py"
        text = steps.read_text(encoding="utf-8") if steps.exists() else ""
        yield Package(name, *modules, weights, text)
    finally:
        sys.dont_write_bytecode = wrote
        sys.path.remove(str(project))
        taken_out(name)
        sys.modules.update(before)


def taken_out(name: str) -> dict[str, ModuleType]:
    """The modules of a project that are imported, which then are not."""
    found = [each for each in sys.modules if each.partition(".")[0] in (name, "redco_runtime")]
    return {each: sys.modules.pop(each) for each in found}


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else None
        todo = "mend that line"
        if isinstance(error, ModuleNotFoundError):
            todo += f", or install what it needs where redco runs ({sys.prefix})"
        what = f"it cannot be imported: {error_message(error)}"
        raise RedcoError(where or error_location(error, name), what, todo) from error
