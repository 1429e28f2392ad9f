"""DP-SGD: what a model learns, without what gives an example away."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.recipes.defaults import scored
from redco_new.models.recipes.recipe import Figure, OwnModel, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("scale", "clip", "deviation"), np.float32(1))
    return {"x": np.zeros(sizes["inputs"], np.float32), "label": np.int32(0), **numbers}


RECIPE = Recipe(
    name="dp-sgd",
    title="differential privacy: clipped gradients and noise (DP-SGD)",
    source="digits of scikit-learn",
    model=OwnModel("a classifier", "Classifier"),
    figure=Figure("accuracy", least=0.82, baseline="one digit of 10: 0.1"),
    needs=frozenset(),
    words=Words(
        learns="on the digits of scikit-learn, so that no digit can be told from what it has learned",
        loss="the loss, which falls from about 2.3, the accuracy, and the epsilon that the whole run costs",
        sample="the class of two held-out digits",
        prompt="0",
        predicts="names the class of a held-out digit, by its number",
        data="change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "model": {"width": 64, "hidden_layers": 1},
        "optimizer": {"learning_rate": 1e-2, "warmup_steps": 5, "weight_decay": 0.0},
        "train": {"steps": 150, "batch_size": 256, "eval_every": 50, "save_every": 50},
    },
    train=scored("accuracy", examples=1024),
    packages=("dp-accounting>=0.4.4", "scikit-learn>=1.5"),
    whole_batch=True,
    order=220,
)
