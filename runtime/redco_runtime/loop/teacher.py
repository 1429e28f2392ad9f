"""A teacher: refused where the student cannot learn from it, and trained first where a run names none.

It is trained by the same loop, in a folder of its own. What is wrong with the student's run is said before.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..base.contracts import Steps
from ..base.messages import UserError, print_once
from ..base.files import path_of
from ..checkpoints.checkpoint import Checkpoints
from ..data.tokenizer import lacks_tokenizer
from ..run.record import FILE, Run, read
from .branches import start_several
from .start import check_run

FOLDER = "teacher"  # in the work folder of the run
# What two tokenizers must write alike: white space, case, accents, digits, several scripts.
PROBE = "The  quick\n\n\tBrown fox's naïve 12,345.67 → 你好, мир! <|end|>"


def with_teacher(
    run: Run,
    pipeline: Any,
    weights: Any,
    build: Callable[[Any], Steps],
    train: Callable[[Steps, Run], None],
) -> Run:
    """Return `run` with a teacher that is trained: its own where it names one, or wants none.

    pipeline, weights: the modules of the project; `pipeline.teaching` gives the config that trains a teacher.
    build: config -> its steps. train: trains a run to its last step; what was stopped goes on.
    Raises UserError where the two do not fit, and, before a teacher is trained, where its student's run cannot be.
    """
    config = run.config
    settings = config.train
    if run.preview or not settings.teacher_share:
        return run
    ids = config.teacher.vocab_size, config.model.vocab_size
    if ids[0] != ids[1]:
        raise UserError(
            f"--teacher-vocab-size: the teacher has {ids[0]} ids and its student {ids[1]}, which it tells apart by "
            "what the teacher makes of each: give both the same"
        )
    if settings.teacher:
        if Checkpoints(run.checkpoints).latest() is None:  # later a checkpoint has it
            check_tokenizer(settings.teacher, config.data.tokenizer, pipeline.tokenizer)
        return run
    taught = pipeline.teaching(config)
    # Of the run itself: a teacher is as long as its own steps.
    own = {name: 0 for name in ("epochs", "patience") if hasattr(taught.train, name)}
    taught = replace(taught, train=replace(taught.train, **own))
    folder = run.workdir / FOLDER
    before = replace(run, workdir=folder, config=taught, init=None, settings="")
    if Checkpoints(before.checkpoints).latest() != before.config.train.steps:
        check_student(build(config), run, pipeline, weights)
        print_once(f"training a teacher first, since --teacher names none: {before.workdir}")
        train(build(before.config), before)
    settings = replace(settings, teacher=str(before.workdir))
    return replace(run, config=replace(config, train=settings))


def check_student(steps: Steps, run: Run, pipeline: Any, weights: Any) -> None:
    """Raise UserError where the run of a student would not begin: its settings, work folder or weights."""
    check_run(steps, pipeline, run)
    run.check_same_model()
    if run.init and Checkpoints(run.checkpoints).latest() is None:
        print_once("the student, to see that it fits:")
        start_several(lambda config, init: {"student": (init, config.model)})(steps, run, weights)


def check_tokenizer(teacher: str, own: str, load: Callable[[str], Any]) -> None:
    """Raise UserError where a teacher was trained with a tokenizer by which ids mean other tokens.

    teacher: a run, or weights, by path or id. own: the name of the student's tokenizer.
    """
    folder = path_of(teacher)
    folder = folder.parent if folder.name == "checkpoints" else folder
    recorded = (folder / FILE).exists()
    name = read(folder / FILE)["config"]["data"].get("tokenizer") if recorded else teacher
    if name == own:
        return
    if name is None or lacks_tokenizer(name):
        print_once(f"--teacher: {teacher} has no tokenizer: its ids are taken for those of {own}")
        return
    todo = f"choose a teacher of the tokenizer {own}, or give --tokenizer {name}"
    try:
        there, here = load(name), load(own)
    except UserError as error:
        why = str(error).partition("; ")[0].removeprefix("--tokenizer: ")
        raise UserError(f"--teacher: {teacher}: its tokenizer: {why}: {todo}") from None
    tokens, others = here.get_vocab(), there.get_vocab()
    unlike = sorted(t for t in {*tokens, *others} if tokens.get(t) != others.get(t))
    if unlike or there(PROBE)["input_ids"] != here(PROBE)["input_ids"]:
        what = (
            f"{unlike[0]!r} is {others.get(unlike[0])} there"
            if unlike
            else "texts are cut otherwise"
        )
        here_is = f" and {tokens.get(unlike[0])} here" if unlike else ""
        raise UserError(
            f"--teacher: {teacher} has the tokenizer {name}, and the student {own}, by which ids mean other tokens "
            f"({what}{here_is}): {todo}"
        )
