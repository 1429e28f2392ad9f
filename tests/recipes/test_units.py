"""What each recipe counts its throughput in."""

import numpy as np
import pytest
from recipes.pipelines import pipeline

from redco_new.models.recipes import RECIPES
from redco_new.render.template import open_template
from redco_runtime.contracts import Counted, Pipeline, Scored

MASK = np.array([[True, True, False], [True, False, False]])
TOKENS = {
    "lm": ({"mask": MASK}, 3),
    "sft": ({"mask": MASK}, 3),
    "mlm": ({"mask": MASK}, 3),
    "seq2seq": ({"mask": MASK, "label_mask": np.ones((2, 4), bool)}, 11),
}


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_are_counted_without_padding(name):
    module, (batch, count) = pipeline(name), TOKENS[name]
    assert isinstance(module, Counted) and module.UNIT == "tokens"
    assert module.count(batch) == count


def test_images_are_examples():
    assert not isinstance(pipeline("image"), Counted)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("lm", "token"), ("sft", "token"), ("dpo", "pair"), ("reward", ""), ("grpo", "")],
)
def test_losses_of_tokens_alone_have_a_perplexity(name, unit):
    with open_template() as template:
        text = RECIPES[name].print_files(template, "a", "bytes", 128, False)["evaluate.py"]
    assert ("perplexity" in text) == ("math.exp" in text) == (unit == "token")
    assert (f"in nats a {unit}" in text) == bool(unit)


@pytest.mark.parametrize("name", ["lm", "sft", "mlm", "seq2seq", "image"])
def test_each_has_what_the_runtime_asks_for(name):
    members = [member for member in vars(Pipeline) if not member.startswith("_")]
    assert members and all(callable(getattr(pipeline(name), member)) for member in members)
    assert isinstance(pipeline(name), Scored) == (name not in ("lm", "sft"))
