"""Predictions for any number of examples, and their mean loss."""

import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import jax
import numpy as np

from redco_runtime.data import eval_batches
from redco_runtime.mesh import count_parts
from redco_runtime.pace import Pace


def mean_loss(steps: Any, params: Any, pipeline: Any, examples: Sequence[Any], size: int) -> float:
    """The mean loss over all examples, in batches of `size`; NaN where the weights sum to 0."""
    sums, pace = [(0.0, 0.0)], Pace()
    batches = eval_batches(examples, pipeline.collate, batch_size=size, sharding=steps.batch)
    for batch, valid, _ in batches:
        sums.append(steps.evaluate(params, batch, valid))
        pace(sums[-1])
    value, weight = np.sum(jax.device_get(sums), axis=0)
    return float(value / weight) if weight else math.nan


def predict(
    steps: Any, params: Any, pipeline: Any, config: Any, examples: Sequence[Any], key: jax.Array
) -> list[str]:
    """What `pipeline.decode` makes of the model's output for each example, in order."""
    texts: list[str] = []
    for outputs, rows in outputs_of(steps, params, pipeline, config, examples, key):
        texts += pipeline.decode(config, outputs, rows)
    return texts


def scores(
    steps: Any, params: Any, pipeline: Any, config: Any, examples: Sequence[Any], key: jax.Array
) -> dict[str, float]:
    """What `pipeline.evaluate` makes of the model's outputs for all examples."""
    parts = [found for found, _ in outputs_of(steps, params, pipeline, config, examples, key)]
    outputs = jax.tree.map(lambda *each: np.concatenate(each), *parts)
    return pipeline.evaluate(config, outputs, examples)


def outputs_of(
    steps: Any, params: Any, pipeline: Any, config: Any, examples: Sequence[Any], key: jax.Array
) -> Iterator[tuple[Any, list[Any]]]:
    """(outputs of the model, examples that they are of), batch by batch."""
    parts = count_parts(steps.batch)
    size = parts * max(1, min(config.train.batch_size // parts, -(-len(examples) // parts)))
    batches = eval_batches(examples, pipeline.collate, batch_size=size, sharding=steps.batch)
    for i, (batch, _, indices) in enumerate(batches):
        outputs = jax.device_get(steps.predict(params, batch, jax.random.fold_in(key, i)))
        rows = jax.tree.map(itemgetter(slice(len(indices))), outputs)
        yield rows, [examples[j] for j in indices.tolist()]
