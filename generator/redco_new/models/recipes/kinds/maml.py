"""MAML: parameters from which a new task is learned in a few steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.recipes.defaults import scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    points = {"x": np.zeros((10, sizes["inputs"]), np.float32), "y": np.zeros(10, np.float32)}
    return {f"{part}_{name}": x for part in ("support", "query") for name, x in points.items()}


RECIPE = Recipe(
    name="maml",
    title="meta-learning: a new task from ten points of it (MAML)",
    source="sines of any amplitude and phase",
    model=OwnModel("a regressor", "Regressor"),
    figure=Figure("improvement", least=0.8, baseline="before it adapts: 0"),
    needs=frozenset(),
    words=Words(
        learns="on sines that `pipeline.py` makes up: each is a task",
        loss="the loss of tasks after a few steps on ten points of each, which falls from about 3",
        sample="the error of two held-out tasks, before and after the steps on them,",
        prompt="0",
        predicts="adapts to a held-out task, by its number",
        data="change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "model": {"width": 64},
        "optimizer": {"learning_rate": 3e-3, "warmup_steps": 20, "weight_decay": 0.0},
        "train": {"steps": 1000, "batch_size": 32, "eval_every": 500, "save_every": 500},
    },
    train=scored("improvement", examples=256),
    order=200,
)
