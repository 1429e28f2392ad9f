"""Many adapters of one run: each measured on what is held out, the best one shown, kept and taken."""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax

from ..base.contracts import Asking, Scored, Steps
from ..base.messages import UserError, print_once
from ..base.files import append_line, cut_lines, path_of, read_lines
from ..base.state import ModelState, TrainState, flatten
from ..data.example_streams import Spread
from ..monitor.metrics import Metrics
from ..run.record import Run
from ..step.stack import Adapters
from .evaluation import Evaluation, Inference, best_checkpoints

FILE = "sweep.jsonl"  # of the work folder: what each evaluation gave, of each adapter
LOSS = "loss"  # of which less is better; more of all scores
# What a line has of an adapter beside its figures.
ABOUT = ("adapter", "learning_rate", "seed", "rank")


class SweepMetrics(Metrics):
    """Metrics whose file has the values of each adapter, and whose line those of the one whose loss is the lowest."""

    def _text(self, step: int, scalars: dict[str, float], rates: dict[str, float]) -> str:
        return super()._text(step, {k: x for k, x in scalars.items() if "/" not in k}, rates)


@dataclass(frozen=True)
class SweepEvaluation(Evaluation):
    """The evaluation of each adapter of a run, as `Evaluation`. What is shown is the best figure of all.

    The answers to the sample prompts are those of the adapter that is the best by the first of `best`, or by its loss.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        lines = read_lines(self.path) if jax.process_index() == 0 else []
        before = [one["rank"] for one in lines[-1]["adapters"]] if lines else []
        rows = self.adapters.rows
        if before and before != [row.rank for row in rows]:
            what = f"{self.run.workdir} holds a run whose adapters have the ranks {before}"
            raise UserError(f"--ranks: {what}: give those, or choose another --workdir")
        print_once(f"{len(rows)} adapters, each on the same batches:")
        for row in rows:
            print_once(f"  adapter {row.number}: {row}")

    @cached_property
    def adapters(self) -> Adapters:
        """Those of the run."""
        return Adapters(self.run.config)

    @property
    def path(self) -> Path:
        """The file with what each evaluation gave."""
        return _path_of(self.run)

    @property
    def _names(self) -> tuple[str, ...]:
        return getattr(self.run.config.train, "best", ())

    def __call__(self, step: int, state: TrainState) -> dict[str, float]:
        """Show, log and keep as `Evaluation` does; return each figure of the adapter that has the best one."""
        inference = self.inference(self.steps, self.pipeline, self.run.config)
        figures = []
        for row in self.adapters.rows:
            model = self.adapters.select(state.predictor, row.number)
            own = inference.means(model, self.rows, self.stop)
            if self.stop():
                return {LOSS: math.nan}
            figures.append(own | self._scores(inference, model))
        if not self.examples:
            self.metrics.evaluated(step, None)
            return {LOSS: math.nan}
        self._record(step, figures)
        best = {name: figures[best_of(figures, name)][name] for name in figures[0]}
        number = best_of(figures, self._names[0] if self._names else LOSS)
        model = self.adapters.select(state.predictor, number)
        texts = inference.predict(model, self.pipeline.prompts(self.run.config, self.samples))
        scores = {name: value for name, value in best.items() if name != LOSS}
        samples = list(zip(self.samples, texts, strict=True))
        self.metrics.evaluated(step, best[LOSS], scores, samples)
        self.metrics.say(
            f"  adapter {number} is the best of this evaluation: {self.adapters.rows[number]}"
        )
        if self._names and not step:
            best_checkpoints().check_names(self._names, best)
        elif self._names:
            keep, folder = best_checkpoints().keep_best, self.run.best
            for name in keep(folder, self._names, best, step, state, self.steps.shapes):
                self.metrics.say(f"  best {name} so far: {folder / name / str(step)}")
        return best

    def _scores(self, inference: Inference, model: ModelState) -> dict[str, float]:
        """Return the scores that evaluate() of pipeline.py gives a model, where it has one."""
        config, pipeline = self.run.config, self.pipeline
        if not self.examples or not isinstance(pipeline, Scored):
            return {}
        some = list(Spread(self.examples, getattr(config.train, "eval_examples", 0)))
        rows = pipeline.questions(config, some) if isinstance(pipeline, Asking) else some
        return pipeline.evaluate(config, inference.outputs(model, rows), some)

    def _record(self, step: int, figures: Sequence[Mapping[str, float]]) -> None:
        if jax.process_index() == 0:
            cut_lines(self.path, step - 1)
            rows = zip(self.adapters.rows, figures, strict=True)
            append_line(self.path, {"step": step, "adapters": [_line(*pair) for pair in rows]})

    def show_table(self) -> None:
        """Print what the last evaluation gave each adapter."""
        lines = read_lines(self.path) if jax.process_index() == 0 else []
        if not lines:
            return
        figures, by = lines[-1]["adapters"], self._names[0] if self._names else LOSS
        best = best_of(figures, by)
        names = [name for name in figures[0] if name not in ABOUT]
        self.metrics.say("".join(f"{name:>15}" for name in (*ABOUT, *names)))
        for one in figures:
            about = "".join(f"{one[name]:>15g}" for name in ABOUT)
            numbers = "".join(f"{math.nan if one[n] is None else one[n]:>15.4f}" for n in names)
            mark = f"  the best by {by}, which export takes" if one["adapter"] == best else ""
            self.metrics.say(f"{about}{numbers}{mark}")


def best_of(figures: Sequence[Mapping[str, Any]], name: str) -> int:
    """Return the number of the adapter that has the best figure of a name; what is no number is the worst.

    Raises UserError for a name that they have not.
    """
    if name not in figures[0]:
        names = ", ".join(one for one in figures[0] if one not in ABOUT)
        raise UserError(f"--best: no score is called {name}: choose some of {names}")
    sign = -1 if name == LOSS else 1

    def gain(number: int) -> float:
        value = figures[number][name]
        return -math.inf if value is None or math.isnan(value) else sign * value

    return max(range(len(figures)), key=gain)


def adapter_option(parser: argparse.ArgumentParser) -> None:
    """Add the flag of which adapter is taken."""
    best = "default: the best by what was held out, by --best if that is given"
    parser.add_argument("--adapter", type=int, metavar="N", help=f"that one of the run's; {best}")


def one_adapter(args: argparse.Namespace, run: Run, step: int, model: ModelState) -> ModelState:
    """Return a model with the adapter that is asked for. Raises UserError. step: of its checkpoint."""
    adapters = Adapters(run.config)
    return adapters.select(model, _number(args, run, step, adapters))


def adapter_alone(
    args: argparse.Namespace, run: Run, steps: Steps, step: int, model: ModelState
) -> tuple[Any, ModelState, dict[str, jax.ShapeDtypeStruct]]:
    """Return (settings of the adapter that is asked for, its model, the shapes of it), as of a run of its own."""
    adapters = Adapters(run.config)
    number = _number(args, run, step, adapters)
    shapes = adapters.cut_shapes(steps.shapes, flatten(steps.state.params), number)
    settings = adapters.of_rank(adapters.rows[number].rank)
    return settings, adapters.cut(model, number), shapes


def _number(args: argparse.Namespace, run: Run, step: int, adapters: Adapters) -> int:
    """Return which adapter is asked for, or the best one of the last evaluation until a step. Raises UserError."""
    last, number = adapters.count - 1, args.adapter
    if number is None:
        lines = [line for line in read_lines(_path_of(run)) if line["step"] <= step]
        if not lines:
            what = f"{run.workdir} has no evaluation until step {step} that says which is the best"
            raise UserError(f"--adapter: {what}: give a number from 0 to {last}")
        number = best_of(lines[-1]["adapters"], args.best or LOSS)
    if not 0 <= number <= last:
        raise UserError(f"--adapter: {number}: give a number from 0 to {last}")
    print_once(f"adapter {number} of {adapters.count}: {adapters.rows[number]}")
    return number


def _path_of(run: Run) -> Path:
    path: Path = path_of(run.workdir) / FILE
    return path


def _line(row: Any, figures: Mapping[str, float]) -> dict[str, Any]:
    """Return what a line has of an adapter; a figure that JSON has not is null."""
    about = zip(ABOUT, (row.number, row.learning_rate, row.seed, row.rank), strict=True)
    finite = {name: x if math.isfinite(x) else None for name, x in figures.items()}
    return dict(about) | finite
