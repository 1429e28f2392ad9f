"""How a run starts: its settings checked, then its last checkpoint, another run's, or anew."""

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from typing import Any

import jax

from ..base.contracts import OwnWeights, Pipeline, Scored, Steps, Weights
from ..base.messages import UserError, feature, open_log, print_once, writing
from ..base.files import cache_of, is_bucket
from ..base.progress import PROGRESS
from ..base.state import TrainState, flatten
from ..checkpoints.checkpoint import Checkpoints
from ..checkpoints.load import adopt, checkpoints_of, load
from ..cluster import lifeline
from ..cluster.agreement import check_shared, known_by
from ..data.batches import TrainBatches
from ..data.example_streams import is_stream
from ..layout.mesh import count_parts
from ..layout.specs import size_on_device
from ..monitor.events import EVENTS
from ..monitor.metrics import check_loggers
from ..run.check_settings import check_hooks, check_section
from ..run.history import record_start
from ..run.lock import hold
from ..run.record import Run
from .evaluation import best_checkpoints, samples_of


def check_run(steps: Steps, pipeline: Pipeline, run: Run) -> None:
    """Refuse what no run can have, before it reads its data. Raises UserError.

    The work folder is made by it, and is this run's from then on; where there are several processes, it
    must be one that they share.
    """
    check_hooks(pipeline)
    check_settings(steps, pipeline, run.config.train)
    if is_bucket(run.workdir):
        run.workdir.check_writers(run.config.train)
    if steps.classes:
        steps.classes.check_names(run)
    if jax.process_index() == 0:
        # Where it is lost to another run, this process ends.
        hold(run.workdir, lambda lost: lifeline.end(f"error: {lost}", UserError.code))
    PROGRESS.at("a wait for the work folder of all")  # which may have to be waited for
    check_shared(run.workdir)
    if jax.process_count() > 1:
        _open_log(run)
    if steps.generation:
        steps.generation.begin_generation(pipeline, run)
    PROGRESS.at("its data")
    # What an evaluation will ask for, which is refused before anything is compiled.
    if run.config.train.steps:
        try:
            pipeline.prompts(run.config, samples_of(pipeline, run.config))
        except UserError as error:  # which predict.py would say of its own flag
            raise UserError(str(error).replace("--prompt:", "--sample-prompts:", 1)) from None


def _open_log(run: Run) -> None:
    """Give this process, one of several, a log: <workdir>/logs/INDEX.log, of a bucket on its host."""
    folder = cache_of(str(run.workdir)) / "logs"
    with writing(folder):
        open_log(folder / f"{jax.process_index()}.log")
    if is_bucket(run.workdir):
        print_once(f"the log of each process: {folder}, on its own host")


def check_settings(steps: Steps, pipeline: Pipeline, settings: Any) -> None:
    """Refuse settings that no run can have. Raises UserError."""
    check_section(settings)
    parts = settings.micro_batches * count_parts(steps.batch)
    if settings.batch_size % parts:
        raise UserError(
            f"--batch-size: {settings.batch_size} rows do not divide by {parts}, the devices of the "
            f"batch times micro_batches: give a multiple of {parts}"
        )
    check_loggers(settings.log)
    if profile := getattr(settings, "profile", ""):
        feature("profile", "monitor.profiling").parse_steps(profile, settings.steps)
    if getattr(settings, "best", ()):
        best_checkpoints()
    if isinstance(pipeline, Scored) and not hasattr(settings, "eval_examples"):
        raise UserError(
            "evaluate() in pipeline.py: add to class Train of config.py the fields eval_examples: "
            "int, how many held-out examples it scores, and best: tuple[str, ...], the scores whose "
            "best checkpoint is kept"
        )
    if getattr(settings, "patience", 0) and not getattr(settings, "best", ()):
        raise UserError(
            "--patience: a run ends by the first score of --best, and it has none: give --best loss, "
            "or a score that evaluate() in pipeline.py returns"
        )


def count_steps(
    steps: Steps, run: Run, examples: Any, build: Callable[[Any], Steps]
) -> tuple[Steps, Run]:
    """Return `steps` and `run`; where --epochs says how long it is, those of as many steps.

    An epoch is as many rows as there are examples, the last one rounded up to a whole batch.
    Raises UserError for examples without a length.
    """
    settings = run.config.train
    epochs = getattr(settings, "epochs", 0)
    if not epochs or not settings.steps:
        return steps, run
    if _is_endless(examples):
        raise UserError("--epochs: how many examples there are is not known before: give --steps")
    count = math.ceil(epochs * _steps_an_epoch(examples, settings))
    config = replace(run.config, train=replace(settings, steps=max(count, 1)))
    return build(config), replace(run, config=config)


def _is_endless(examples: Any) -> bool:
    """Return whether nobody counts the examples: they are read as they come, or numbers of games."""
    return is_stream(examples) or isinstance(examples, range)


def _steps_an_epoch(examples: Sized, settings: Any) -> float:
    return len(examples) * getattr(settings, "round_steps", 1) / settings.batch_size


def introduce(run: Run, steps: Steps, examples: Any, held_out: Sequence[Any], batches: Any) -> None:
    """Print what a run trains, where, on what, for how long, and where it writes, and record it."""
    run.save(begun=True)
    both = [("training", examples), ("held-out", held_out)] * (jax.process_index() == 0)
    record_start(run, steps, batches.step, {name: known_by(some) for name, some in both})
    settings, shapes = run.config.train, steps.shapes
    trained = flatten(steps.state.params)
    sizes = {path: math.prod(leaf.shape) for path, leaf in shapes.items()}
    total, some = sum(sizes.values()), sum(n for path, n in sizes.items() if path in trained)
    share = "all trained" if some == total else f"{some:,} trained ({some / total:.2%})"
    mesh = " ".join(f"{axis}={size}" for axis, size in jax.sharding.get_mesh().shape.items())
    devices = f"{_several(jax.device_count(), 'device')} ({jax.devices()[0].device_kind})"
    processes = _several(jax.process_count(), "process", "processes")
    unit, rows, epochs = "", "rows as they come", ""
    if isinstance(batches, TrainBatches) and batches.unit != "examples":
        unit = f", {batches.peek_count():,.0f} {batches.unit} in the first"
    if not _is_endless(examples):
        an_epoch = _steps_an_epoch(examples, settings)
        rows = _several(len(examples), "row")
        epochs = f", {an_epoch:,.1f} steps an epoch: {settings.steps / an_epoch:.3g} epochs"
    print_once(
        f"{type(run.config.model).__name__.removesuffix('Config')}: {total:,} parameters, {share}\n"
        f"mesh {mesh}: {devices}, {processes}\n"
        f"{rows}, and {len(held_out):,} held out; {settings.batch_size:,} a step{unit}\n"
        f"{_several(settings.steps, 'step')}{epochs}\n"
        f"writing to {run.workdir}"
    )


def _several(count: int, name: str, names: str = "") -> str:
    return f"{count:,} {name if count == 1 else names or name + 's'}"


def start_or_resume(
    checkpoints: Checkpoints,
    steps: Steps,
    run: Run,
    weights: Any,
    new: Callable[[Steps, Run, Any], TrainState] | None = None,
) -> TrainState:
    """Return the state of the last checkpoint, or that of a new run, which is recorded.

    weights: the module that says what other checkpoints call the parameters: Weights, or OwnWeights.
    new: makes the state of a new run, as `new_run` does, which it is for one model.
    """
    PROGRESS.at("its weights")
    PROGRESS.size = size_on_device(steps.state) * jax.local_device_count()
    restored = checkpoints.restore(steps.state)
    if restored:
        print_once(f"resuming from step {restored[0]} in {checkpoints.directory}")
    state = restored[1] if restored else (new or new_run)(steps, run, weights)
    if not restored and run.init:
        folder = checkpoints_of(run.init)
        checkpoints.position = Checkpoints(folder).history() if folder else {}
    document = steps.generation.read_generation(run) if steps.generation else {}
    if restored is None:
        run.save()
        if not run.config.train.steps:  # else by `introduce`, which has its examples
            record_start(run, steps, 0, {})
    else:
        run.check(begun=True)  # saved by `introduce`, once its examples fit too
    if steps.generation and restored is None:
        steps.generation.save_generation(run, document)
    if jax.process_index() == 0:
        EVENTS.open(run.workdir, int(state.step))
    return state


def nothing_to_train(checkpoints: Checkpoints, state: TrainState, settings: Any) -> None:
    """Say that all steps are done; save what `--steps 0` of a new run starts from."""
    step = int(state.step)
    if step == 0:
        checkpoints.save(0, state, checkpoints.position)
        print_once(f"checkpoint: {checkpoints.directory / '0'}")
    longer = "--steps" if step >= settings.steps else "--patience"
    print_once(f"step {step} of {settings.steps} is done: give more {longer} to train on")


def new_run(
    steps: Steps, run: Run, weights: Weights | OwnWeights, needed: Sequence[str] = ()
) -> TrainState:
    """Return the state of a new run: of the checkpoint that it names, or random.

    needed: paths of parameters that the checkpoint must have. Raises UserError where it has not.
    """
    if run.init is None:
        print_once("starting from random numbers")
        return steps.init(jax.random.key(run.config.train.seed))
    unused: list[str] = []
    if folder := checkpoints_of(run.init):
        by_name = steps.classes.paths_by_class(weights, run.config) if steps.classes else ()
        state, random, unused = adopt(folder, steps, run.config, by_name)
    elif isinstance(weights, OwnWeights):
        state, random = weights.load(run.init, steps, run.config)
    else:
        state, random = load(run.init, steps, run.config, weights)
    if lost := [path for path in random if path in needed]:
        todo = "give what was trained with one"
        raise UserError(f"--init: {run.init} has no {', '.join(lost)}: {todo}")
    if random:
        print_once(f"as in a new model, since {run.init} does not have them: {', '.join(random)}")
    if unused:
        print_once(f"left out, since the model does not have them: {', '.join(unused)}")
    print_once(f"starting from the weights of {run.init}")
    if tokenizer := getattr(run.config.data, "tokenizer", None):
        print_once(f"texts are read by the tokenizer {tokenizer}")
    return state
