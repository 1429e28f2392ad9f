"""The loss of the model that the user has by now, from the files of the project."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
from flax import nnx

from redco_new.errors import RedcoError
from redco_new.program import Program
from redco_new.sharding.untraceable import place, say

PRESET = "full"
SECONDS = 60  # that examples() may take


@dataclass(frozen=True)
class Package:
    """The modules of a project, imported. name: of the package."""

    name: str
    model: ModuleType
    config: ModuleType
    pipeline: ModuleType

    @property
    def full(self) -> Any:
        """The configuration that the layout is made for. Raises RedcoError."""
        try:
            return self.config.PRESETS[PRESET]
        except (AttributeError, KeyError, TypeError) as error:
            what = f"it has no PRESETS[{PRESET!r}], the model that sharding.py is made for"
            raise RedcoError(self.path("config"), what, "bring it back") from error

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
    try:
        modules = (_import(f"{name}.{each}") for each in ("model", "config", "pipeline"))
        yield Package(name, *modules)
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
        what = f"merged, it cannot be imported: {say(error)}"
        raise RedcoError(where or place(error, name), what, "mend that line") from error


def user_program(package: Package, program: Program, model_class: str) -> tuple[Program, list[str]]:
    """(the loss of the user's model, what the user should know of it).

    program: that of the template, whose batch, or at last whose loss, is used where the user's
    cannot be. Raises RedcoError, which names the user's line, if the model cannot be traced.
    """
    config = package.full
    build = getattr(package.model, model_class, None)
    if build is None:
        what = f"it defines no {model_class}, which steps.py builds"
        todo = f"name the class so, or add {model_class} = ..."
        raise RedcoError(package.path("model"), what, todo)
    mine = replace(program, build=lambda: build(config.model, rngs=nnx.Rngs(0)))
    yours = replace(mine, loss=package.pipeline.loss)
    if (first := _fault(yours)) is None:
        return yours, []
    batch = own_batch(package, program.batch)
    if batch is not None and _fault(replace(yours, batch=batch)) is None:
        return replace(yours, batch=batch), []
    if error := _fault(mine):
        what = f"merged, it cannot be traced: {say(error).rstrip('.')}"
        raise RedcoError(place(error, package.path("model")), what, "mend that line") from error
    told = f"{place(first, package.path('pipeline'))}: {say(first).rstrip('.')}"
    return mine, [
        f"the layout is that of the recipe's own loss, since yours cannot be traced: {told}"
    ]


def _fault(program: Program) -> Exception | None:
    """What tracing a program raises."""
    try:
        jax.eval_shape(program.forward, program.params, program.batch)
    except Exception as error:  # the user's own code may raise anything
        return error
    return None


def own_batch(package: Package, like: Any) -> Any:
    """An abstract batch as the user's collate makes it of the user's examples; None if it does not.

    Of the tiny preset's data, so that it needs little; as many rows as `like` has.
    """
    rows = jax.tree.leaves(like)[0].shape[0]
    try:
        with _limited(SECONDS):
            config = replace(package.full, data=package.config.PRESETS["tiny"].data)
            batch = package.pipeline.collate(package.pipeline.examples(config)[0][:1])
    except Exception:  # what is wrong with it, the trial of the merged project says
        return None
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), batch)


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the code within after so many seconds."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError

    before: Callable[..., Any] | Any = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
