"""A target for each source."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import ENCODER_DECODER
from redco_new.models.recipes.defaults import TINY_TEXT, TUNED, TUNED_ADAPTER, scored, text_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    target = np.zeros(length // 4, np.int32)  # as its section `data` says
    labels = {"labels": target, "label_mask": np.ones(len(target), bool)}
    return text_example(sizes, length) | {"decoder_ids": target} | labels


RECIPE = Recipe(
    name="seq2seq",
    title="a target for each source: translation, summaries",
    source="docstrings of Python's library, and their first words",
    model="t5",
    figure=Figure("loss", most=2.5, baseline="the frequencies of bytes: 3.34"),
    needs=ENCODER_DECODER,
    words=Words(
        learns="to repeat the first words of docstrings of Python's library",
        loss="the loss, which falls from about 6 to about 2, ROUGE scores",
        sample="what becomes of a source",
        prompt='"Return the name of the file."',
        predicts="writes the target of a source",
        data="`--data pairs.jsonl`, or change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny=TINY_TEXT | {"data": TINY_TEXT["data"] | {"target_length": 32}},
    train=scored("rouge2", "rougeL"),
    packages=("rouge-score>=0.1.2",),
    rate=TUNED,
    adapter_rate=TUNED_ADAPTER,
    smooths=True,
    drops=True,
    perplexity=True,
    prompt_fields=("source", "document", "article", "dialogue", "text"),
    writes=True,
    order=30,
)
