"""Predictions for any number of examples, and their mean loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from redco_runtime.data import eval_batches
from redco_runtime.pace import Pace


def mean_loss(steps: Any, params: Any, pipeline: Any, examples: Sequence[Any], size: int) -> float:
    """The weighted mean loss over all examples, each counted once, in batches of `size`."""
    sums, pace = [], Pace()
    for batch, valid, _ in eval_batches(
        examples, pipeline.collate, batch_size=size, sharding=steps.batch
    ):
        sums.append(steps.evaluate(params, batch, valid))
        pace(sums[-1])
    values, weights = np.sum(jax.device_get(sums), axis=0)
    return float(values / weights)


def predict(
    steps: Any, params: Any, pipeline: Any, config: Any, examples: Sequence[Any], key: jax.Array
) -> list[str]:
    """What `pipeline.decode` makes of the model's output for each example, in order."""
    if not examples:
        return []
    parts = math.prod(steps.batch.mesh.shape[axis] for axis in steps.batch.spec[0])
    size = min(config.train.batch_size, -(-len(examples) // parts) * parts)
    texts: list[str] = []
    for i, (batch, _, indices) in enumerate(
        eval_batches(examples, pipeline.collate, batch_size=size, sharding=steps.batch)
    ):
        outputs = jax.device_get(steps.predict(params, batch, jax.random.fold_in(key, i)))
        rows = jax.tree.map(lambda x: x[: len(indices)], outputs)
        texts += pipeline.decode(config, rows, [examples[j] for j in indices])
    return texts
