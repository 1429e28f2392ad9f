"""What a run shows now and then: the held-out loss, scores, samples, pictures; and its best checkpoints."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from ..base.contracts import Asking, Config, Drawn, Pipeline, Sampling, Scored, Steps
from ..base.examples import Example
from ..base.errors import UserError
from ..base.features import feature
from ..base.output import print_once
from ..base.paths import written_here
from ..base.state import TrainState
from ..data.example_streams import Spread, check_held_out
from ..monitor.metrics import Metrics
from ..run.record import Run
from .inference import Inference

PICTURES = "pictures"  # folder of the work folder, of what a pipeline draws at each evaluation


def samples_of(pipeline: Pipeline, config: Config) -> list[str]:
    """Return the prompts whose answers are shown at each evaluation."""
    if isinstance(pipeline, Sampling):
        return pipeline.sample_prompts(config)
    return list(config.data.sample_prompts)


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a run on its held-out examples, `eval_rows` of them at most: call it with (step, state)."""

    steps: Steps
    pipeline: Pipeline
    run: Run
    examples: Sequence[Example]
    metrics: Metrics
    stop: Callable[[], bool] = lambda: False  # whether the run is to save and leave
    inference: type[Inference] = Inference

    def __post_init__(self) -> None:
        check_held_out(self.examples)
        size, count = len(self.examples), len(self.rows)
        if not size and getattr(self.run.config.train, "patience", False):
            todo = "give more --held-out"
            raise UserError(f"--patience: no example is held out to measure by: {todo}")
        if not size:
            lack = "evaluations have no loss, and show the samples alone"
            print_once(f"no example is held out: {lack}")
        if count < size:
            print_once(
                f"an evaluation reads {count:,} of {size:,} held-out examples, from all over them: --eval-rows 0 "
                "reads all"
            )

    @cached_property
    def rows(self) -> Spread:
        """Those that are read."""
        return Spread(self.examples, getattr(self.run.config.train, "eval_rows", 0))

    @cached_property
    def samples(self) -> list[str]:
        """What is asked each time."""
        return samples_of(self.pipeline, self.run.config)

    def __call__(self, step: int, state: TrainState) -> dict[str, float]:
        """Show and log the loss, the scores and what becomes of the sample prompts.

        Returns the loss and the scores, the same in all processes; a loss of NaN where the run is to
        stop, and so cannot wait for it. Those that `train.best` names have their best state saved.
        """
        config, pipeline, best = self.run.config, self.pipeline, self.run.best
        inference = self.inference(self.steps, pipeline, config)
        scores = inference.means(state.predictor, self.rows, self.stop)
        loss = scores.pop("loss")
        if self.stop():
            return {"loss": math.nan}
        texts = inference.predict(state.predictor, pipeline.prompts(config, self.samples))
        names = getattr(config.train, "best", None)  # of a run whose predictions are scored
        if self.examples and names is not None and isinstance(pipeline, Scored):
            some = list(Spread(self.examples, getattr(config.train, "eval_examples", 0)))
            rows = pipeline.questions(config, some) if isinstance(pipeline, Asking) else some
            outputs = inference.outputs(state.predictor, rows)
            scores |= pipeline.evaluate(config, outputs, some)
            if isinstance(pipeline, Drawn) and jax.process_index() == 0:
                with written_here(self.run.workdir / PICTURES / f"{step}.png") as path:
                    pipeline.draw_predictions(config, outputs, some, path)
        self.metrics.evaluated(
            step,
            loss if self.examples else None,
            scores,
            list(zip(self.samples, texts, strict=True)),
        )
        held_out = {"loss": loss, **scores}
        if names and self.examples and not step:
            best_checkpoints().check_names(names, held_out)
        elif names and self.examples:
            keep = best_checkpoints().keep_best
            for name in keep(best, names, held_out, step, state, self.steps.shapes):
                self.metrics.say(f"  best {name} so far: {best / name / str(step)}")
        return held_out


def is_out_of_patience(run: Run, step: int) -> bool:
    """Return whether a run ends at `step` by its --patience, and say so, if it does. All processes call it."""
    settings = run.config.train
    if not getattr(settings, "patience", 0) or not getattr(settings, "best", ()):
        return False
    return bool(best_checkpoints().patience_is_over(run, step))


def best_checkpoints() -> Any:
    """Return the module of them. Raises UserError where the project has none."""
    return feature("best", "checkpoints.best", "--best")
