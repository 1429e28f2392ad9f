"""What a model makes of held-out examples, where that takes a rollout: the loss, scores, samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ..base.contracts import Steps
from ..base.examples import Example
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree
from ..layout.mesh import count_parts
from ..loop.evaluation import Inference
from .rollouts import Row, roll_out


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
