"""Fine-tuning on chats: only what the assistant says is learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import TINY_TEXT, Rate, text_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words


def _example(sizes: Mapping[str, Any], length: int) -> dict[str, Any]:
    return text_example(sizes, length) | {"learned": np.ones(length, bool)}


RECIPE = Recipe(
    name="sft",
    title="fine-tuning on chats: only what the assistant says is learned",
    source="sums, asked and answered",
    model="gpt2",
    figure=Figure("loss", most=1.0, baseline="the frequencies of bytes: 2.31"),
    needs=CAUSAL,
    words=Words(
        learns="to answer sums, as a chat",
        loss="the loss of the answers, which falls from about 6 to below 1",
        sample="the answer to a question",
        prompt='"What is 3 + 4?"',
        predicts="answers a question",
        data="`--data chats.jsonl`, or change `examples` in `pipeline.py`",
    ),
    example=_example,
    tiny=TINY_TEXT,
    packages=("jinja2>=3.1",),
    system=True,
    rate=Rate(2e-5, "That of TRL, and of Alpaca (Taori et al. 2023)"),
    smooths=True,
    drops=True,
    perplexity=True,
    prompt_fields=("messages", "prompt", "instruction"),
    writes=True,
    order=20,
)
