"""What each recipe counts its throughput in."""

import numpy as np
import pytest
from recipes.pipelines import pipeline

from redco_new.models.recipes import RECIPES
from redco_runtime.base.contracts import Counted, Pipeline, Scored

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


def test_losses_of_tokens_alone_have_a_perplexity():
    names = {name for name, recipe in RECIPES.items() if recipe.perplexity}
    assert names == {"lm", "sft", "distillation", "mlm", "seq2seq"}


@pytest.mark.parametrize("name", ["lm", "sft", "mlm", "seq2seq", "image"])
def test_each_has_what_the_runtime_asks_for(name):
    members = [member for member in vars(Pipeline) if not member.startswith("_")]
    assert members and all(callable(getattr(pipeline(name), member)) for member in members)
    assert isinstance(pipeline(name), Scored) == (name not in ("lm", "sft"))
