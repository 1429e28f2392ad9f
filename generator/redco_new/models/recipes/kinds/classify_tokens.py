"""A label for each word of a text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import MASKED
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
    name="classify-tokens",
    title="a label for each word: names of people and places, parts of speech",
    source="lines of Python's library: what each name is",
    model="bert",
    figure=Figure("f1", least=0.5, baseline="no word has a role: 0"),
    needs=MASKED,
    words=Words(
        learns="which names of a line of Python are modules, functions, classes, or called",
        loss="the loss, which falls from about 2, F1 of these entities and the accuracy of words",
        sample="the labels of the words of two lines",
        prompt='"import os . path"',
        predicts="labels words, which have spaces between them",
        data="`--data words.jsonl --labels O B-PER I-PER`, or change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny={
        "data": {"tokenizer": "bytes", "sequence_length": 64},
        "optimizer": {"learning_rate": 2e-3, "warmup_steps": 20},
        "train": TINY_TEXT["train"] | {"steps": 150, "batch_size": 32, "eval_every": 50},
    },
    train=(
        Setting(
            "labels",
            ("O", "B-module", "I-module", "B-function", "B-class", "B-call", "I-call"),
            "of a word; `data` has these",
        ),
        *scored("f1", examples=256),
    ),
    head=("score",),
    task="TOKEN_CLS",
    smooths=True,
    drops=True,
    packages=("matplotlib>=3.10",),
    rate=TUNED,
    adapter_rate=TUNED_ADAPTER,
    prompt_fields=("words",),
    order=44,
)
