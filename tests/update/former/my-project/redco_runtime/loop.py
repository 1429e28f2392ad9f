"""The training loop: set up, then step, evaluate and save until done."""

from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import jax

from redco_runtime.best import keep_best
from redco_runtime.checkpoint import Checkpoints
from redco_runtime.data import train_batches
from redco_runtime.errors import UserError
from redco_runtime.flops import training_flops
from redco_runtime.inference import mean_loss, predict, scores
from redco_runtime.load import adopt, load
from redco_runtime.mesh import count_parts
from redco_runtime.metrics import Metrics
from redco_runtime.pace import Pace
from redco_runtime.run import Run
from redco_runtime.state import TrainState


@dataclass
class Trainer:
    """Everything that the loop uses. pipeline: the module with collate, loss and predict."""

    steps: Any
    pipeline: Any
    run: Run
    checkpoints: Checkpoints
    train_examples: list[Any]
    held_out: list[Any]


def fit(steps: Any, pipeline: Any, run: Run, weights: Any = None) -> None:
    """Train `run` in its work folder, from its last checkpoint if it has one.

    weights: the module that says what other checkpoints call the parameters, if there is one.
    """
    settings = run.config.train
    check(steps, settings)
    if hasattr(pipeline, "evaluate") and not hasattr(settings, "eval_examples"):
        raise UserError(
            "evaluate() in pipeline.py: add to class Train of config.py the fields eval_examples: "
            "int, how many held-out examples it scores, and best: tuple[str, ...], the scores whose "
            "best checkpoint is kept"
        )
    examples = pipeline.examples(run.config)
    with Checkpoints(run.checkpoints, settings.keep, steps.shapes) as checkpoints:
        found = checkpoints.restore(steps.state)
        if found:
            say(f"resuming from step {found[0]} in {checkpoints.directory}")
        state = found[1] if found else start(steps, run, weights)
        run.save(begun=found is not None)
        train(Trainer(steps, pipeline, run, checkpoints, *examples), state)


def start(steps: Any, run: Run, weights: Any) -> TrainState:
    """The state of a new run: of the checkpoint that it names, or random."""
    if run.init is None:
        return steps.init(jax.random.key(run.config.train.seed))
    folders, unused = (Path(run.init) / "checkpoints", Path(run.init)), []
    folders = [folder for folder in folders if Checkpoints(folder).latest() is not None]
    if folders:
        state, kept, unused = adopt(folders[0], steps, run.config)
    else:
        params, kept = load(run.init, steps, run.config, weights)
        state = steps.start(params)
    if kept:
        say(f"random, since {run.init} does not have them: {', '.join(kept)}")
    if unused:
        say(f"left out, since the model does not have them: {', '.join(unused)}")
    say(f"starting from the weights of {run.init}")
    return state


def check(steps: Any, settings: Any) -> None:
    """Refuse settings that no run can have, before it writes anything. Raises UserError."""
    for name in ("batch_size", "micro_batches", "log_every", "eval_every", "save_every", "keep"):
        if getattr(settings, name) < 1:
            raise UserError(f"--{name.replace('_', '-')}: give a number above 0")
    parts = settings.micro_batches * count_parts(steps.batch)
    if settings.batch_size % parts:
        raise UserError(
            f"--batch-size: {settings.batch_size} rows do not divide by {parts}, the devices of the "
            f"batch times micro_batches: give a multiple of {parts}"
        )


def train(trainer: Trainer, state: TrainState) -> None:
    """Steps from where `state` is to the last one, then a checkpoint."""
    settings, first = trainer.run.config.train, int(state.step)
    if first >= settings.steps:
        if first == 0:
            trainer.checkpoints.save(0, state)
            say(f"checkpoint: {trainer.checkpoints.directory / '0'}")
        say(f"step {first} of {settings.steps} is done: give more --steps to train on")
        return
    batches = train_batches(
        trainer.train_examples,
        trainer.pipeline.collate,
        seed=settings.seed,
        batch_size=settings.batch_size,
        start=first,
        stop=settings.steps,
        sharding=trainer.steps.batch,
    )
    batch = next(batches)
    say("compiling the train step")
    step, pace = trainer.steps.train.lower(state, batch).compile(), Pace()
    with closing(open_metrics(trainer, batch, first)) as metrics:
        if first == 0:
            report(trainer, state, metrics, 0)
        batches = chain([batch], batches)
        for done, batch in enumerate(batches, first + 1):
            state, values = step(state, batch)
            pace(values["loss"])
            last = done == settings.steps
            if last or done % settings.log_every == 0:
                metrics.log(done, {"loss": values["loss"], **values})
            if last or done % settings.save_every == 0:
                trainer.checkpoints.save(done, state)
            if last or done % settings.eval_every == 0:
                report(trainer, state, metrics, done)
    trainer.checkpoints.wait()
    say(f"checkpoint: {trainer.checkpoints.directory / str(settings.steps)}")


def open_metrics(trainer: Trainer, batch: Any, first: int) -> Metrics:
    """Metrics of this run; the work of one step is counted in its own program."""
    loss, arguments = trainer.steps.loss, (trainer.steps.state.model, batch, jax.random.key(0))
    return Metrics(
        trainer.run.workdir,
        total=trainer.run.config.train.steps,
        start=first,
        tokens_per_step=jax.tree.leaves(jax.eval_shape(loss, *arguments))[0].size,
        flops_per_step=training_flops(loss, *arguments),
    )


def report(trainer: Trainer, state: TrainState, metrics: Metrics, step: int) -> None:
    """Show the loss and the scores on the held-out examples, and what becomes of the sample prompts.

    A pipeline that has `evaluate` gives the scores; those that `train.best` names keep their best.
    """
    config, pipeline, steps = trainer.run.config, trainer.pipeline, trainer.steps
    loss = mean_loss(steps, state.model, pipeline, trainer.held_out, config.train.batch_size)
    prompts = pipeline.prompts(config, list(config.data.sample_prompts))
    key = jax.random.key(config.train.seed)
    texts = predict(steps, state.model, pipeline, config, prompts, key)
    found = {}
    if trainer.held_out and hasattr(pipeline, "evaluate"):
        some = trainer.held_out[: config.train.eval_examples]
        found = scores(steps, state.model, pipeline, config, some, key)
    metrics.evaluated(step, loss, found)
    for prompt, text in zip(config.data.sample_prompts, texts, strict=True):
        metrics.say(f"  {prompt!r} -> {text!r}")
    if found and step:
        kept = (trainer.run.best, config.train.best, found, step, state, steps.shapes)
        for name in keep_best(*kept):
            metrics.say(f"  best {name} so far: {trainer.run.best / name / str(step)}")


def say(text: str) -> None:
    """Print a line, once for all processes."""
    if jax.process_index() == 0:
        print(text, flush=True)
