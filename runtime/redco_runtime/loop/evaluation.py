"""What a model makes of any number of examples; and what a run shows of that now and then, and its best checkpoints."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import jax
import numpy as np

from ..base.contracts import Asking, Batch, Config, Drawn, Pipeline, Sampling, Scored, Steps
from ..base.messages import UserError, feature, print_once
from ..base.examples import Example
from ..base.files import written_here
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree, TrainState
from ..data.batches import EvalBatches, eval_batches
from ..data.collating import Largest, asked_of, check_ids
from ..data.example_streams import Spread, check_held_out
from ..layout.mesh import count_parts
from ..monitor.metrics import Metrics
from ..run.record import Run
from ..step.guard import Pace
from ..step.tables import tables_of

PICTURES = "pictures"  # folder of the work folder, of what a pipeline draws at each evaluation


class Within:
    """A step of (model, batch, more) that refuses a batch with an id that the model has no row for, as training does."""

    def __init__(self, step: Any, shapes: Mapping[str, jax.ShapeDtypeStruct]) -> None:
        self._step, self._shapes = step, shapes
        self._tables: Mapping[str, int] | None = None  # by the first batch: all are laid out alike

    def __call__(self, largest: Largest, model: ModelState, batch: Batch, more: jax.Array) -> Any:
        """Return what the step gives. largest: of the batch. Raises UserError."""
        with asked_of(batch):
            if self._tables is None:
                step = getattr(self._step, "trace", jax.jit(self._step).trace)(model, batch, more)
                self._tables = tables_of(step.jaxpr, model, batch, self._shapes)
            check_ids(largest, self._tables)
            return self._step(model, batch, more)


@dataclass(frozen=True)
class Inference:
    """The steps that do not train, batch by batch; what they give is the same in all processes."""

    steps: Steps
    pipeline: Pipeline
    config: Config

    def means(
        self,
        model: ModelState,
        examples: Sequence[Example],
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float]:
        """Return the mean loss over all examples, as "loss", and of its terms that are of each; NaN where weights sum to 0.

        stop: asked before each batch whether to leave it at those so far.
        """
        parts, pace = list[tuple[PyTree, jax.Array]](), Pace()
        step = Within(self.steps.evaluate, self.steps.shapes)
        for batch, valid, _, largest in self._batches(examples, self.config.train.batch_size):
            if stop():
                break
            PROGRESS.at("an evaluation")
            parts.append(step(largest, model, batch, valid))
            pace(parts[-1])
        sums, weight = {"loss": 0.0}, 0.0
        for values, some in jax.device_get(parts):
            # A steps.py from before terms were evaluated gives the loss alone.
            for name, value in (values if isinstance(values, dict) else {"loss": values}).items():
                sums[name] = sums.get(name, 0.0) + float(value)
            weight += float(some)
        return {name: value / weight if weight else math.nan for name, value in sums.items()}

    def mean_loss(self, model: ModelState, examples: Sequence[Example]) -> float:
        """Return the mean loss over all examples."""
        return self.means(model, examples)["loss"]

    def predict(self, model: ModelState, examples: Sequence[Example]) -> list[str]:
        """Return what `pipeline.decode` makes of the model's output for each example, in order."""
        return [*self.texts(model, examples)]

    def texts(self, model: ModelState, examples: Sequence[Example]) -> Iterator[str]:
        """Yield the same, batch by batch."""
        for outputs, rows in self._outputs(model, examples):
            texts = [*self.pipeline.decode(self.config, outputs, rows)]
            if len(texts) != len(rows):
                what = f"it gives {len(texts)} texts for {len(rows)} examples"
                raise UserError(f"decode() in pipeline.py: {what}: give one for each")
            yield from texts

    def outputs(self, model: ModelState, examples: Sequence[Example]) -> PyTree:
        """Return what `pipeline.predict` gives for all examples, in order: NumPy arrays, a row for each."""
        parts = [part for part, _ in self._outputs(model, examples)]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _batches(self, examples: Sequence[Example], size: int) -> EvalBatches:
        sharding = self.steps.batch
        return eval_batches(examples, self.pipeline.collate, batch_size=size, sharding=sharding)

    def _outputs(
        self, model: ModelState, examples: Sequence[Example]
    ) -> Iterator[tuple[PyTree, list[Example]]]:
        """Yield (outputs of the model, examples that they are of), batch by batch."""
        settings, parts = self.config.train, count_parts(self.steps.batch)
        size = parts * max(1, min(settings.batch_size // parts, -(-len(examples) // parts)))
        key = jax.random.key(settings.seed)
        step = Within(self.steps.predict, self.steps.shapes)
        for i, (batch, _, indices, largest) in enumerate(self._batches(examples, size)):
            PROGRESS.at("a prediction")
            outputs = step(largest, model, batch, jax.random.fold_in(key, i))
            outputs = jax.device_get(outputs)
            rows = jax.tree.map(itemgetter(slice(len(indices))), outputs)
            yield rows, [examples[j] for j in indices.tolist()]


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
