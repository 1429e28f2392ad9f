"""Language modelling: each token predicts the next one."""

from redco_new.models.family import CAUSAL
from redco_new.models.recipes.defaults import MANUAL, TINY_TEXT, text_example
from redco_new.models.recipes.recipe import Figure, Recipe, Words

RECIPE = Recipe(
    name="lm",
    title="language modelling: each token predicts the next one",
    source="the language reference that ships with Python",
    model="gpt2",
    figure=Figure("loss", most=2.4, baseline="the frequencies of bytes: 3.20"),
    needs=CAUSAL,
    words=Words(
        learns=MANUAL,
        loss="the loss, which falls from about 6 to about 2",
        sample="a sample of text",
        prompt='"The "',
        predicts="continues a prompt",
        data="`--data 'texts/*.jsonl'`, or change `examples` in `pipeline.py`",
    ),
    example=text_example,
    tiny=TINY_TEXT,
    smooths=True,
    drops=True,
    perplexity=True,
    prompt_fields=("text", "prompt"),
    writes=True,
    order=10,
)
