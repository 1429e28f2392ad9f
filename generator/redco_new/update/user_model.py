"""The model that the user has by now: its package, imported for a while, and its loss."""

from __future__ import annotations

import ast
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import jax
from flax import nnx
from redco_plan import error_location, error_message

from redco_new.errors import RedcoError
from redco_new.generate.rollouts import imagine
from redco_new.models.program import Program
from redco_new.render.execute import importable
from redco_new.update.trial_run import EXAMPLES_SECONDS

PRESET = "full"


@dataclass(frozen=True)
class ProjectPackage:
    """The modules of a project, imported.

    name: of the package.
    model, config, pipeline: its modules of these names.
    weights: None for a project of an own class.
    steps: the text of steps.py; "" where there is none.
    """

    name: str
    model: ModuleType
    config: ModuleType
    pipeline: ModuleType
    weights: ModuleType | None
    steps: str

    @property
    def full_config(self) -> Any:
        """The configuration that the layout is made for. Raises RedcoError."""
        try:
            return self.config.PRESETS[PRESET]
        except (AttributeError, KeyError, TypeError) as error:
            what = f"it has no PRESETS[{PRESET!r}], the model that sharding.py is made for"
            raise RedcoError(self.path("config"), what, "bring it back") from error

    def model_class(self, name: str) -> Callable[..., nnx.Module]:
        """Return the class `name` of model.py, or what steps.py imports in its place.

        Raises RedcoError.
        """
        if hasattr(self.model, name):
            model_class: Callable[..., nnx.Module] = getattr(self.model, name)
            return model_class
        candidates = [
            value
            for node in ast.walk(ast.parse(self.steps))
            if isinstance(node, ast.ImportFrom) and node.module == f"{self.name}.model"
            for value in [getattr(self.model, node.names[0].name, None)]
            if isinstance(value, type) and issubclass(value, nnx.Module)
        ]
        if len(candidates) == 1:
            return candidates[0]
        todo = f"name the class so, or add {name} = ..."
        raise RedcoError(self.path("model"), f"it defines no {name}, which steps.py builds", todo)

    def path(self, module: str) -> str:
        """Return the path of a module in the project."""
        return f"{self.name}/{module}.py"


@contextmanager
def import_package(project: Path, name: str) -> Iterator[ProjectPackage]:
    """Import the package `name` of the folder `project`, for use within this context alone.

    Raises RedcoError where it cannot be imported.
    """
    folder = project / name
    with importable(project, name, its_runtime=True):
        model, config, pipeline = (
            _import(f"{name}.{module}") for module in ("model", "config", "pipeline")
        )
        has_weights = (folder / "weights.py").exists()
        weights = _import(f"{name}.weights") if has_weights else None
        steps = folder / "steps.py"
        text = steps.read_text(encoding="utf-8") if steps.exists() else ""
        yield ProjectPackage(name, model, config, pipeline, weights, text)


def _import(name: str) -> ModuleType:
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        path = f"{name.replace('.', '/')}.py"
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            todo = f"bring it back: redco update --restore {path}"
            raise RedcoError(path, "is missing", todo) from error
        where = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else None
        todo = "mend that line"
        if isinstance(error, ModuleNotFoundError):
            todo += f", or install what it needs where redco runs ({sys.prefix})"
        what = f"it cannot be imported: {error_message(error)}"
        raise RedcoError(where or error_location(error, name), what, todo) from error


def user_program(
    package: ProjectPackage, program: Program, model_class: str, folder: Path = Path()
) -> tuple[Program, list[str]]:
    """Return (the loss of the user's model, what the user should know of it).

    program: that of the template, whose batch, or at last whose loss, is used where the user's
        cannot be.
    model_class: the name of the class in model.py.
    folder: of the project, where its data lies.
    Raises RedcoError, which names the user's line, if the model cannot be traced.
    """
    config, own_class = package.full_config, package.model_class(model_class)

    def build(sizes: Any, *, rngs: nnx.Rngs) -> nnx.Module:
        return program.put(own_class(sizes, rngs=rngs), rngs, getattr(config, "lora", None))

    def make() -> nnx.Module:
        for name in ("Models", "with_head"):  # several, of which it is one; it with another head
            if maker := getattr(package.pipeline, name, None):
                models: nnx.Module = maker(build, config, rngs=nnx.Rngs(0))
                return models
        return build(config.model, rngs=nnx.Rngs(0))

    mine = replace(program, build=make)
    yours = replace(mine, loss=package.pipeline.loss)
    if (fault := _fault(yours)) is None:
        return yours, []
    batch = _user_batch(package, make, program.batch, folder)
    if batch is not None and _fault(replace(yours, batch=batch)) is None:
        return replace(yours, batch=batch), []
    if _fault(mine):
        what = f"it cannot be traced: {error_message(fault).rstrip('.')}"
        raise RedcoError(
            error_location(fault, package.path("model")), what, "mend that line"
        ) from fault
    why = f"{error_location(fault, package.path('pipeline'))}: {error_message(fault).rstrip('.')}"
    return mine, [
        f"the layout is that of the recipe's own loss, since yours cannot be traced: {why}"
    ]


def _fault(program: Program) -> Exception | None:
    """Return what tracing a program raises."""
    try:
        jax.eval_shape(program.forward, program.params, program.batch)
    except Exception as error:  # the user's own code may raise anything
        return error
    except SystemExit as error:
        return RuntimeError(f"it calls sys.exit({error.code!r})")
    return None


def _user_batch(
    package: ProjectPackage, make: Callable[[], nnx.Module], like: Any, folder: Path
) -> Any:
    """Return an abstract batch as the user's collate makes it of the user's examples; None if not.

    Of the tiny preset's data, so that it needs little; as many rows as `like` has.
    """
    rows = jax.tree.leaves(like)[0].shape[0]
    try:
        with _time_limit(EXAMPLES_SECONDS), chdir(folder):
            data = package.config.PRESETS["tiny"].data
            config = replace(package.full_config, data=data)
            some = [*islice(package.pipeline.examples(config)[0], 1)]
            if hasattr(package.pipeline, "rollout"):
                some = _imagined(package.pipeline, config, some, make)
            batch = package.pipeline.collate(some)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), batch)
    except (Exception, SystemExit):  # what is wrong with it, the trial of the merged project says
        return None


def _imagined(
    pipeline: ModuleType, config: Any, examples: list[Any], make: Callable[[], nnx.Module]
) -> list[Any]:
    """Return what a model that makes its own examples learns from, of the shapes that a run has."""
    graph, state = nnx.split(nnx.eval_shape(make))

    def predict(state: Any, batch: Any) -> Any:
        return pipeline.predict(nnx.merge(graph, state), batch, nnx.Rngs(0))

    return imagine(pipeline, config, examples, lambda batch: jax.eval_shape(predict, state, batch))


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the code within after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    handler_before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler_before)
