"""What the current model makes of some examples, by the pipeline's `rollout`."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from ..base.contracts import Pipeline, Steps
from ..base.examples import Arrays, Example
from ..base.messages import UserError
from ..base.state import ModelState, PyTree
from ..data.batches import to_global
from ..data.collating import collate_examples

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
