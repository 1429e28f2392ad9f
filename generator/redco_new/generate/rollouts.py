"""The examples of a model that makes its own, without a step of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np


def imagine(
    actor: Any,
    config: Any,
    examples: Sequence[Any],
    shapes_of: Callable[[Mapping[str, np.ndarray]], Any],
) -> list[Any]:
    """Return the examples of a step as they would be where every prediction is 0: their shapes are those of a run.

    actor: a pipeline with `rollout` and `minibatches`, as the runtime's Actor.
    shapes_of: a batch -> ShapeDtypeStructs of what predict() of pipeline.py gives for it.
    """
    shapes = dict[str, Any]()

    def predict(inputs: list[Any]) -> Any:
        arrays = actor.collate(inputs)
        name = str([(key, x.shape, x.dtype) for key, x in arrays.items()])
        if name not in shapes:
            shapes[name] = shapes_of(arrays)
        return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes[name])

    rows = actor.rollout(config, [*examples], predict, True)
    return list(next(actor.minibatches(config, [rows], np.random.default_rng(0))))
