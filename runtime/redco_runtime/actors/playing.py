"""What the current model makes of some examples, by the pipeline's `rollout`: of those to learn from, and of held-out ones, for their loss, scores and samples."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from ..base.contracts import Pipeline, Steps
from ..base.examples import Arrays, Example
from ..base.messages import UserError
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree
from ..data.batches import to_global
from ..data.collating import collate_examples
from ..layout.mesh import count_parts
from ..loop.evaluation import Inference

Row = dict[str, np.ndarray]  # what came of an example
# Examples -> what predict() of pipeline.py gives for them.
Predict = Callable[[list[Example]], PyTree]


class Actor(Pipeline, Protocol):
    """A pipeline whose model makes its own examples. Its `decode` and `evaluate` get stacked rows as outputs."""

    def rollout(
        self, config: Any, examples: list[Example], predict: Predict, explore: bool, /
    ) -> list[Row]:
        """Return a row for each example.

        predict: may be called any number of times, with as many examples, of any kind that collate takes;
            where there are several processes, as often in all of them.
        explore: True in training, False where held-out examples are evaluated.
        """

    def minibatches(
        self, config: Any, rollouts: list[list[Row]], rng: np.random.Generator, /
    ) -> Iterator[list[Row]]:
        """Yield the examples of one step after the other, as many in each as a rollout has rows.

        rollouts: of the rounds that are learned from, the current one last. rng: alike in all processes.
        """


def roll_out(
    actor: Actor,
    config: Any,
    steps: Steps,
    model: ModelState,
    examples: Sequence[Example],
    places: np.ndarray,
    size: int,
    key: jax.Array,
    explore: bool,
) -> list[Row]:
    """Return what this process makes of its examples. All processes call it, and it predicts for all at once.

    places: of these examples among `size` of all processes, ascending; those that its devices hold, or more.
    Raises UserError where the pipeline gives another number of rows.
    """
    numbers = itertools.count()

    def predict(inputs: list[Example]) -> PyTree:
        def rows_of(here: np.ndarray) -> Arrays:
            return collate_examples(inputs, actor.collate, np.searchsorted(places, here).tolist())

        batch = to_global(steps.batch, size, rows_of)
        outputs = steps.predict(model, batch, jax.random.fold_in(key, next(numbers)))
        return jax.tree.map(lambda x: x[places], jax.device_get(outputs))

    rows = actor.rollout(config, [*examples], predict, explore)
    if len(rows) != len(examples):
        raise UserError(
            f"rollout() in pipeline.py: it gives {len(rows)} rows for {len(examples)} examples: give one for each"
        )
    return rows


def play(
    pipeline: Any,
    config: Any,
    steps: Steps,
    model: ModelState,
    examples: Sequence[Example],
    explore: bool = False,
) -> list[Row]:
    """Return the row of each example, in all processes, each of which plays all of them."""
    parts = count_parts(steps.batch)
    size = parts * -(-len(examples) // parts)
    padded = [*examples, *[examples[0]] * (size - len(examples))]
    key, places = jax.random.key(config.train.seed), np.arange(size)
    rows = roll_out(pipeline, config, steps, model, padded, places, size, key, explore)
    return rows[: len(examples)]


@dataclass(frozen=True)
class Playing(Inference):
    """Inference by rollouts: outputs of the model are the rows of one, stacked.

    The loss and the scores of the same model and examples are of one rollout.
    """

    # By what it is of, which is kept with it: no other object gets an id of these meanwhile.
    rollouts: dict[tuple[int, ...], tuple[list[Any], list[Row]]] = field(default_factory=dict)

    def means(
        self,
        model: ModelState,
        examples: Sequence[Example],
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float]:
        """Return the means over what the model makes of the examples; NaN where there are none."""
        rows = [row for part in self._parts(examples) for row in self._play(model, part)]
        return super().means(model, rows, stop)

    def _outputs(
        self, model: ModelState, examples: Sequence[Example]
    ) -> Iterator[tuple[PyTree, list[Example]]]:
        for part in self._parts(examples):
            rows = self._play(model, part)
            yield {name: np.stack([row[name] for row in rows]) for name in rows[0]}, part

    def _parts(self, examples: Sequence[Example]) -> list[list[Example]]:
        size = self.config.train.batch_size
        starts = range(0, len(examples), size)
        return [
            [examples[i] for i in range(start, min(start + size, len(examples)))]
            for start in starts
        ]

    def _play(self, model: ModelState, examples: Sequence[Example]) -> list[Row]:
        inputs = [*jax.tree.leaves(model), *examples]
        key = tuple(map(id, inputs))
        if key not in self.rollouts:
            PROGRESS.at("a prediction")
            rows = play(self.pipeline, self.config, self.steps, model, examples)
            self.rollouts[key] = inputs, rows
        return self.rollouts[key][1]
