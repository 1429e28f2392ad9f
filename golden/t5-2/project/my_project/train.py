# Yours: `redco update` merges into it, and never overwrites what you wrote.
"""Train T5 v1_1-base: set up, then step, log, save and evaluate until done.

python -m my_project.train --preset tiny --virtual-devices 2 --workdir runs/tiny
"""

from contextlib import closing

import jax

from my_project import pipeline, weights
from my_project.boot import boot
from my_project.config import PRESETS
from my_project.runtime.base.contracts import Steps
from my_project.runtime.base.messages import print_once
from my_project.runtime.base.progress import PROGRESS
from my_project.runtime.checkpoints.checkpoint import Checkpoints
from my_project.runtime.cluster.agreement import check_same_examples
from my_project.runtime.data.batches import TrainBatches
from my_project.runtime.layout.mesh import make_mesh
from my_project.runtime.loop.command import command, training_run
from my_project.runtime.loop.evaluation import Evaluation, is_out_of_patience
from my_project.runtime.loop.out_of_memory import DeviceMemory
from my_project.runtime.loop.start import (
    check_run,
    count_steps,
    introduce,
    nothing_to_train,
    start_or_resume,
)
from my_project.runtime.loop.stop import Stop, Stopped
from my_project.runtime.monitor.metrics import Metrics, open_loggers
from my_project.runtime.run.record import Run
from my_project.runtime.step.flops import training_flops
from my_project.runtime.step.guard import Guard
from my_project.sharding import AXES
from my_project.steps import build


@command
def main() -> None:
    run = training_run(__doc__, PRESETS, AXES)
    with PROGRESS.deadlines(run.config.train.step_timeout, run.config.train.silence):
        boot(virtual_devices=run.virtual_devices, facts=run.facts, cache=run.cache)
        with jax.set_mesh(make_mesh(run.mesh)):
            train(build(run.config), run)


def train(steps: Steps, run: Run) -> None:
    """Train `run` in its work folder to its last step, from its last checkpoint if it has one."""
    check_run(steps, pipeline, run)
    examples, held_out = pipeline.examples(run.config) if run.config.train.steps else ([], [])
    check_same_examples(examples)
    steps, run = count_steps(steps, run, examples, build)
    settings = run.config.train
    checkpoints = Checkpoints(run.checkpoints, settings.keep, steps.shapes, settings.keep_every)
    with checkpoints, DeviceMemory(steps, run) as memory:
        state = start_or_resume(checkpoints, steps, run, weights)
        first = int(state.step)
        if first >= settings.steps or is_out_of_patience(run, first):
            nothing_to_train(checkpoints, state, settings)
            return
        batches = TrainBatches(
            examples,
            pipeline,
            settings,
            start=first,
            position=checkpoints.position,
            sharding=steps.batch,
        )
        introduce(run, steps, examples, held_out, batches)
        step = memory.compile(state, batches.peek())
        batches.keep_within(memory.tables)
        flops = training_flops(steps, batches.peek())
        metrics = Metrics(
            run.workdir, total=settings.steps, start=first, unit=batches.unit, flops_per_step=flops
        )
        metrics.loggers += open_loggers(run, first)
        stop, guard = Stop(), Guard(settings, batches.indices, metrics.say)
        evaluate = Evaluation(steps, pipeline, run, held_out, metrics, stop)
        with closing(metrics), stop:
            if first == 0:
                evaluate(0, state)
            for done, batch in enumerate(batches, first + 1):
                state, values = step(state, batch)
                guard(done, values)
                last, leaving = done == settings.steps, stop()
                if last or done % settings.log_every == 0:
                    metrics.log(done, values, batches.count)
                if last or leaving or done % settings.save_every == 0:
                    guard.settle()
                    checkpoints.save(done, state, batches.position)
                if leaving and not last:
                    raise Stopped(f"step {done} is saved: the same command goes on from there")
                if last or done % settings.eval_every == 0:
                    evaluate(done, state)
                    if is_out_of_patience(run, done):
                        break
        checkpoints.save(done, state, batches.position)
        checkpoints.wait()
        print_once(f"checkpoint: {checkpoints.directory / str(done)}")


if __name__ == "__main__":
    main()
