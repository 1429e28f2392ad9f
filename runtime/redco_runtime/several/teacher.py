"""A teacher for a run that names none: trained first, by the same loop, in a folder of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from redco_runtime.checkpoint import Checkpoints
from redco_runtime.cli import print_once
from redco_runtime.run import Run

FOLDER = "teacher"  # in the work folder of the run


def with_teacher(run: Run, teaching: Callable[[Any], Any], train: Callable[[Run], None]) -> Run:
    """Return `run` with a teacher that is trained: its own where it names one, or wants none.

    teaching: config -> that which trains its teacher. train: trains a run to its last step; what was
    stopped goes on.
    """
    config: Any = run.config
    if config.train.teacher or not config.train.teacher_share:
        return run
    taught = teaching(config)
    # Of the run itself: a teacher is as long as its own steps.
    own = {name: 0 for name in ("epochs", "patience") if hasattr(taught.train, name)}
    taught = replace(taught, train=replace(taught.train, **own))
    folder = run.workdir / FOLDER
    before = replace(run, workdir=folder, config=taught, init=None, settings="")
    if Checkpoints(before.checkpoints).latest() != before.config.train.steps:
        print_once(f"training a teacher first, since --teacher names none: {before.workdir}")
        train(before)
    settings = replace(config.train, teacher=str(before.workdir))
    return replace(run, config=replace(config, train=settings))
