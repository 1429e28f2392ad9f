"""The training loop: set up, then step, evaluate and save until done."""

from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import jax

from redco_runtime.checkpoint import Checkpoints
from redco_runtime.data import train_batches
from redco_runtime.errors import UserError
from redco_runtime.flops import training_flops
from redco_runtime.inference import mean_loss, predict
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


def fit(steps: Any, pipeline: Any, run: Run) -> None:
    """Train `run` in its work folder, from its last checkpoint if it has one."""
    settings = run.config.train
    check(steps, settings)
    examples = pipeline.examples(run.config)
    run.save()
    with Checkpoints(run.checkpoints, keep=settings.keep) as checkpoints:
        found = checkpoints.restore(steps.state)
        if found:
            say(f"resuming from step {found[0]} in {checkpoints.directory}")
        state = found[1] if found else steps.init(jax.random.key(settings.seed))
        train(Trainer(steps, pipeline, run, checkpoints, *examples), state)


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
    loss, arguments = trainer.steps.loss, (trainer.steps.state.params, batch, jax.random.key(0))
    return Metrics(
        trainer.run.workdir,
        total=trainer.run.config.train.steps,
        start=first,
        tokens_per_step=jax.tree.leaves(jax.eval_shape(loss, *arguments))[0].size,
        flops_per_step=training_flops(loss, *arguments),
    )


def report(trainer: Trainer, state: TrainState, metrics: Metrics, step: int) -> None:
    """Show the loss on the held-out examples and how the model continues the sample prompts."""
    config, pipeline, steps = trainer.run.config, trainer.pipeline, trainer.steps
    loss = mean_loss(steps, state.params, pipeline, trainer.held_out, config.train.batch_size)
    prompts = pipeline.prompts(config, list(config.data.sample_prompts))
    key = jax.random.key(config.train.seed)
    texts = predict(steps, state.params, pipeline, config, prompts, key)
    metrics.evaluated(step, loss)
    for prompt, text in zip(config.data.sample_prompts, texts, strict=True):
        metrics.say(f"  {prompt!r} -> {text!r}")


def say(text: str) -> None:
    """Print a line, once for all processes."""
    if jax.process_index() == 0:
        print(text, flush=True)
