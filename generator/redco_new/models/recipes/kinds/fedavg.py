"""Federated averaging: clients that keep their data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.recipes.defaults import scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words

ROWS = 96  # as in the recipe's pipeline.py


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    rows = {"x": np.zeros((ROWS, sizes["inputs"]), np.float32), "label": np.zeros(ROWS, np.int32)}
    return rows | {"mask": np.ones(ROWS, np.float32)}


RECIPE = Recipe(
    name="fedavg",
    title="federated learning: clients that keep their data (FedAvg)",
    source="digits of scikit-learn, two classes a client",
    model=OwnModel("a classifier", "Classifier"),
    figure=Figure("accuracy", least=0.9, baseline="the best client alone, seed 0: 0.41"),
    needs=frozenset(),
    words=Words(
        learns="on the digits of scikit-learn, of which each of 16 clients has two classes",
        loss="the loss of the clients of a round, which falls from about 2.3, the accuracy over all classes",
        sample="the accuracy on some held-out digits",
        prompt="0",
        predicts="says how many rows of a held-out part are told right, by its number",
        data="change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "model": {"width": 64},
        "optimizer": {
            "algorithm": "sgd",
            "learning_rate": 1.0,
            "learning_rate_decay": "constant",
            "warmup_steps": 0,
            "weight_decay": 0.0,
            "beta1": 0.0,
            "clip_norm": 1e3,
        },
        "train": {"steps": 150, "batch_size": 8, "eval_every": 50, "save_every": 50},
    },
    train=scored("accuracy"),
    packages=("scikit-learn>=1.5",),
    order=210,
)
