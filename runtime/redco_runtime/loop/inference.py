"""What a model makes of any number of examples: predictions, and the mean loss."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import jax
import numpy as np

from ..base.contracts import Config, Pipeline, Steps
from ..base.examples import Example
from ..base.progress import PROGRESS
from ..base.state import ModelState, PyTree
from ..data.batches import EvalBatches, eval_batches
from ..data.collating import asked_of
from ..layout.mesh import count_parts
from ..step.guard import Pace


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
        for batch, valid, _ in self._batches(examples, self.config.train.batch_size):
            if stop():
                break
            PROGRESS.at("an evaluation")
            with asked_of(batch):
                parts.append(self.steps.evaluate(model, batch, valid))
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
            yield from self.pipeline.decode(self.config, outputs, rows)

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
        for i, (batch, _, indices) in enumerate(self._batches(examples, size)):
            PROGRESS.at("a prediction")
            with asked_of(batch):
                outputs = self.steps.predict(model, batch, jax.random.fold_in(key, i))
            outputs = jax.device_get(outputs)
            rows = jax.tree.map(itemgetter(slice(len(indices))), outputs)
            yield rows, [examples[j] for j in indices.tolist()]
