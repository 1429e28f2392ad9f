"""Masked language modelling: the words that are hidden in a text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import MASKED
from redco_new.models.recipes.defaults import MANUAL, TINY_TEXT, scored, text_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return text_example(sizes, length) | {"labels": np.zeros(length, np.int32)}


RECIPE = Recipe(
    name="mlm",
    title="masked language modelling: the tokens that are hidden in a text",
    source="the language reference that ships with Python",
    model="bert",
    figure=Figure("loss", most=2.95, baseline="the frequencies of bytes: 3.20"),
    needs=MASKED,
    words=Words(
        learns=MANUAL,
        loss="the loss, which falls from about 6 to about 2.8",
        sample="a text with its gaps filled",
        prompt='"The [MASK] of the"',
        predicts="fills the gaps of a text",
        data="`--data 'texts/*.jsonl'`, or change `examples` in `pipeline.py`",
    ),
    example=_example,
    # With the rate of TINY_TEXT, three times as high, two seeds of three learn the frequencies of bytes alone.
    tiny=TINY_TEXT | {"optimizer": {"learning_rate": 1e-3, "warmup_steps": 20}},
    train=scored("accuracy"),
    smooths=True,
    drops=True,
    perplexity=True,
    prompt_fields=("text", "prompt"),
    order=40,
)
