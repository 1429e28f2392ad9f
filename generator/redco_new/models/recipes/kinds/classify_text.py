"""A label for each text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import CAUSAL, MASKED
from redco_new.models.recipes.defaults import (
    Setting,
    TINY_TEXT,
    TUNED,
    TUNED_ADAPTER,
    scored,
    text_example,
)
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return text_example(sizes, length) | {"label": np.ones(length, np.int16)}


RECIPE = Recipe(
    name="classify-text",
    title="a label for each text: topics, sentiment",
    source="lines of Python's library: code, comments, docstrings",
    model="bert",
    figure=Figure("accuracy", least=0.6, baseline="one label of 3: 0.33"),
    needs=MASKED,
    also=CAUSAL,
    words=Words(
        learns="to tell code, comments and docstrings of Python's library apart, by a line",
        loss="the loss, which falls from about 1.1, the accuracy",
        sample="the label of two lines",
        prompt='"Return the name of the file."',
        predicts="labels a text",
        data="`--data texts.jsonl --labels negative positive`, or change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "data": {"tokenizer": "bytes", "sequence_length": 64},
        "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
        "train": TINY_TEXT["train"] | {"steps": 100, "batch_size": 32, "eval_every": 50},
    },
    train=(
        Setting("labels", ("code", "comment", "docstring"), "what a text can be; `data` has these"),
        *scored("accuracy", examples=256),
    ),
    head=("pooler", "score"),
    also_head=("score",),
    task="SEQ_CLS",
    smooths=True,
    drops=True,
    packages=("matplotlib>=3.10",),
    rate=TUNED,
    adapter_rate=TUNED_ADAPTER,
    prompt_fields=("text",),
    order=42,
)
