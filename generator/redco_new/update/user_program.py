"""The loss of the model that the user has by now, from the files of the project."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from redco_new.errors import RedcoError
from redco_new.models.program import Program
from redco_new.sharding import error_location, error_message
from redco_new.update.package import Package
from redco_new.update.trial import EXAMPLES_SECONDS


def user_program(
    package: Package, program: Program, model_class: str, folder: Path = Path()
) -> tuple[Program, list[str]]:
    """(the loss of the user's model, what the user should know of it).

    folder: of the project, where its data lies.  program: that of the template, whose batch, or at last whose loss, is used where the user's
    cannot be. Raises RedcoError, which names the user's line, if the model cannot be traced.
    """
    config, build = package.full, package.model_class(model_class)
    mine = replace(program, build=lambda: build(config.model, rngs=nnx.Rngs(0)))
    yours = replace(mine, loss=package.pipeline.loss)
    if (first := _fault(yours)) is None:
        return yours, []
    batch = own_batch(package, program.batch, folder)
    if batch is not None and _fault(replace(yours, batch=batch)) is None:
        return replace(yours, batch=batch), []
    if _fault(mine):
        what = f"it cannot be traced: {error_message(first).rstrip('.')}"
        raise RedcoError(
            error_location(first, package.path("model")), what, "mend that line"
        ) from first
    told = f"{error_location(first, package.path('pipeline'))}: {error_message(first).rstrip('.')}"
    return mine, [
        f"the layout is that of the recipe's own loss, since yours cannot be traced: {told}"
    ]


def weights_notes(package: Package, program: Program) -> list[str]:
    """Where weights.py no longer is about the parameters of the model."""
    from redco_runtime.state import flatten

    if package.weights is None:
        return []
    try:
        named = package.weights.tensors(package.full.model).keys()
    except Exception:  # the user's own code may raise anything, and says so when it is used
        return []
    paths = flatten(program.params).keys()
    new, gone = ", ".join(sorted(paths - named)), ", ".join(sorted(named - paths))
    where = f"tensors() in {package.path('weights')}"
    return [
        *([f"{where} has no name for {new}: `export` and `--init` need one"] if new else []),
        *([f"{where} names {gone}, which the model no longer has"] if gone else []),
    ]


def _fault(program: Program) -> Exception | None:
    """What tracing a program raises."""
    try:
        jax.eval_shape(program.forward, program.params, program.batch)
    except Exception as error:  # the user's own code may raise anything
        return error
    except SystemExit as error:
        return RuntimeError(f"it calls sys.exit({error.code!r})")
    return None


def own_batch(package: Package, like: Any, folder: Path) -> Any:
    """An abstract batch as the user's collate makes it of the user's examples; None if it does not.

    Of the tiny preset's data, so that it needs little; as many rows as `like` has.
    """
    rows = jax.tree.leaves(like)[0].shape[0]
    try:
        with _limited(EXAMPLES_SECONDS), chdir(folder):
            config = replace(package.full, data=package.config.PRESETS["tiny"].data)
            batch = package.pipeline.collate([package.pipeline.examples(config)[0][0]])
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), batch)
    except (Exception, SystemExit):  # what is wrong with it, the trial of the merged project says
        return None


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
