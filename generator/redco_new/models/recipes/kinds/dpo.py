"""Preferences: a policy learns which of two answers people prefer, beside a frozen reference."""

from redco_new.models.branches import Branch
from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import Setting, TINY_TEXT, Rate, pair_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words

RECIPE = Recipe(
    name="dpo",
    folder="preference",
    loss="dpo",
    title="a policy learns which of two answers people prefer, beside a frozen reference",
    source="sums, answered in two ways",
    model="gpt2",
    figure=Figure("loss", most=0.1, baseline="0.693: the reference"),
    needs=CAUSAL,
    words=Words(
        learns="to prefer one of two ways to answer sums",
        loss="the loss, which falls from 0.693, that of the reference, to below 0.1",
        sample="the answer to a question",
        prompt='"What is 3 + 4?"',
        predicts="answers a question",
        data="`--data pairs.jsonl`, or change `examples` in `pipeline.py`",
    ),
    example=pair_example,
    tiny={
        "data": {"tokenizer": "bytes", "sequence_length": 64},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 10},
        "train": TINY_TEXT["train"] | {"steps": 40},
    },
    train=(Setting("beta", 0.1, "of the margin, a nat: the higher, the nearer the policy stays"),),
    packages=("jinja2>=3.1",),
    branches=(Branch("policy"), Branch("reference", frozen=True, base=True)),
    system=True,
    terms=True,
    rate=Rate(1e-6, "That of TRL, and of DPO (Rafailov et al. 2023)"),
    adapter_rate=Rate(1e-5, "Ten times that of the whole model (Schulman et al. 2025)"),
    prompt_fields=("messages", "prompt", "instruction"),
    writes=True,
    order=26,
)
