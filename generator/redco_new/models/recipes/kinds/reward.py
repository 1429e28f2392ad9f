"""A model of rewards: a number for a chat, by which of two answers people prefer."""

from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import TINY_TEXT, Rate, pair_example, scored
from redco_new.models.recipes.recipe import Figure, Recipe, Words

CHAT = '{"prompt": "What is 3 + 4?", "completion": "3 + 4 = 7"}'

RECIPE = Recipe(
    name="reward",
    title="a model of rewards learns which of two answers people prefer",
    source="sums, answered in two ways",
    model="gpt2",
    figure=Figure("accuracy", least=0.98, baseline="untrained, or by length: 0.5"),
    needs=CAUSAL,
    words=Words(
        learns="to prefer one of two ways to answer sums",
        loss="the loss, which falls from 0.693, that of chance, to below 0.1",
        sample="the rewards of two answers",
        prompt=f"'{CHAT}'",
        predicts="makes a number of a chat",
        data="`--data pairs.jsonl`, or change `examples` in `pipeline.py`",
    ),
    example=pair_example,
    tiny={
        "data": {"tokenizer": "bytes", "sequence_length": 64},
        "optimizer": {"learning_rate": 1e-3, "warmup_steps": 10},
        "train": TINY_TEXT["train"] | {"steps": 40},
    },
    train=scored("accuracy", examples=128),
    packages=("jinja2>=3.1",),
    head=("score",),
    task="SEQ_CLS",
    terms=True,
    rate=Rate(1e-4, "That of TRL, where a head starts anew"),
    adapter_rate=Rate(1e-4, "That of TRL for adapters, where a head starts anew"),
    prompt_fields=(),
    order=27,
)
