"""Imports a project and takes one step with it: trial_run.py runs it in a process of its own.

Its argument is JSON: project, package, mesh (axis -> size), seconds (for examples()), and report,
the file to write: {"note": why the step was not tried, or ""} or {"error", "where", "missing"}.
"""

import importlib
import json
import math
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from redco_new.project.fault import in_one_line, is_users, locate_fault

# Of what is generated, in the order that names a fault where it is; a user may have deleted some.
MODULES = (
    *("sharding", "model", "config", "pipeline", "boot"),
    *("steps", "weights", "train", "predict", "export"),
)
WRONG_CODE = (AttributeError, NameError, TypeError)  # in examples(): not for want of its data
EXAMPLES = "examples() in pipeline.py"


class NoTrial(Exception):
    """There is nothing to try the step with. Its message says why."""


def main() -> NoReturn:
    """Try the project that the argument names, and report."""
    job = json.loads(sys.argv.pop())
    try:
        try_project(job)
        report(job, note="")
    except NoTrial as reason:
        report(job, note=str(reason))
    except BaseException as error:  # sys.exit in the user's code is one
        report(
            job,
            error=in_one_line(error, job["project"]),
            where=locate_fault(error, job["project"]),
            missing=error.name if isinstance(error, ModuleNotFoundError) else None,
        )


def report(job: dict[str, Any], **content: str | None) -> NoReturn:
    """Write what came of it, whole or not at all, and end, whatever threads the user's code has."""
    part = Path(job["report"] + ".part")
    part.write_text(json.dumps(content))
    part.replace(job["report"])
    os._exit(0)


def try_project(job: dict[str, Any]) -> None:
    """Import all of a project and take one step. Raises what fails; NoTrial where the data does."""
    import jax

    layout = runtime_module(job, "layout.mesh")
    layout.use_virtual_devices(math.prod(job["mesh"].values()))
    folder = Path(job["project"], job["package"])
    present = [name for name in MODULES if (folder / f"{name}.py").exists()]
    modules = {name: importlib.import_module(f"{job['package']}.{name}") for name in present}
    config = modules["config"].PRESETS.get("tiny")
    if config is None:
        raise NoTrial("PRESETS in config.py has no tiny")

    with jax.set_mesh(layout.make_mesh(job["mesh"])):
        steps = modules["steps"].build(config)
        take_step(steps, modules["pipeline"], config, job)


def runtime_module(job: dict[str, Any], name: str) -> ModuleType:
    """Return a module of the project's own runtime."""
    return importlib.import_module(f"{job['package']}.runtime.{name}")


def take_step(steps: Any, pipeline: Any, config: Any, job: dict[str, Any]) -> None:
    """Take one step from random parameters, of a batch with a row for each device of each part."""
    import jax
    import numpy as np

    to_global = runtime_module(job, "data.batches").to_global
    count_parts = runtime_module(job, "layout.mesh").count_parts
    state = steps.init(jax.random.key(config.train.seed))
    rows = count_parts(steps.batch) * config.train.micro_batches
    examples = find_examples(pipeline, config, rows, job)
    if hasattr(pipeline, "rollout") and hasattr(pipeline, "minibatches"):
        play = runtime_module(job, "actors.playing").play
        rollout = play(pipeline, config, steps, state.model, examples, explore=True)
        examples = next(pipeline.minibatches(config, [rollout], np.random.default_rng(0)))
    batch = to_global(steps.batch, rows, lambda at: pipeline.collate([examples[i] for i in at]))
    loss = float(steps.train(state, batch)[1]["loss"])
    if not math.isfinite(loss):
        where = f"{job['package']}/pipeline.py::loss"
        report(job, error=f"the loss of the first step is {loss}", where=where, missing=None)


def find_examples(pipeline: Any, config: Any, rows: int, job: dict[str, Any]) -> list[Any]:
    """Return the first examples that the user's function gives, and again where they are few.

    Raises NoTrial if it has none, which may be for want of its data; what its own code has wrong,
    as it is.
    """
    try:
        with limit(job):
            data = pipeline.examples(config)[0]
            some = [*islice(data, rows)]
            examples = [some[i % len(some)] for i in range(rows if some else 0)]
    except BaseException as error:
        last = list(traceback.walk_tb(error.__traceback__))[-1][0].f_code.co_filename
        if isinstance(error, WRONG_CODE) and is_users(last, job["project"]):
            raise
        raise NoTrial(f"{EXAMPLES}: {in_one_line(error, job['project'])}") from error
    if not examples:
        raise NoTrial(f"{EXAMPLES}: it gives none to train on")
    return examples


@contextmanager
def limit(job: dict[str, Any]) -> Iterator[None]:
    """End the trial, with a note, where examples() takes long."""
    why = f"{EXAMPLES}: it takes more than {job['seconds']} s"
    # A signal's exception would be caught by code that tries again and again to reach its data.
    timer = threading.Timer(job["seconds"], report, [job], {"note": why})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


if __name__ == "__main__":
    main()
