"""What is shown of data of one's own, by the recipe that learns from it."""

import json
from dataclasses import field, make_dataclass
from types import SimpleNamespace

import pytest
from recipes.pipelines import pipeline

from redco_runtime.loop.evaluation import samples_of
from redco_runtime.data.text.prompts import first_words

ASKED, SAID = {"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yes."}
PAIR = {"prompt": "Hi?", "chosen": "Yes.", "rejected": "No."}
# recipe -> (a row, what is asked of it)
CASES = {
    "lm": ({"text": "one two three four"}, "one two"),
    "distillation": ({"text": "one two three four"}, "one two"),
    "mlm": ({"text": "one two three"}, "one two [MASK]"),
    "seq2seq": ({"document": "one", "summary": "1"}, "one"),
    "classify-text": ({"text": "one", "label": "a"}, "one"),
    "classify-tokens": ({"text": ["one", "two"], "label": ["a", "b"]}, "one two"),
    "sft": ({"messages": [ASKED, SAID]}, "Hi?"),
    "dpo": (PAIR, "Hi?"),
    "reward": (PAIR, json.dumps({"messages": [ASKED, SAID]})),
    "grpo": ({"prompt": "Hi?", "answer": "Yes."}, "Hi?"),
}
FIELDS = {"text_field": "text", "label_field": "label", "prompt_field": "prompt"}
FIELDS |= {"source_field": "", "target_field": "", "prefix": "", "tokenizer": "bytes"}
FIELDS |= {"sequence_length": 256, "target_length": 8, "subword": "first", "held_out_data": ()}
FIELDS |= {"sample_prompts": ("The recipe's own",)}
DATA = make_dataclass("Data", [(name, object, field(default=x)) for name, x in FIELDS.items()])


def config(**data):
    own = DATA(**{k: v for k, v in data.items() if k != "data"})
    own.data = data.get("data", ())
    train = SimpleNamespace(labels=("a", "b"), new_tokens=4)
    return SimpleNamespace(data=own, train=train, model=SimpleNamespace(pad_id=0, start_id=0))


@pytest.mark.parametrize("recipe", CASES)
def test_rows_of_ones_own_data_are_shown(recipe, tmp_path):
    row, asked = CASES[recipe]
    (tmp_path / "a.jsonl").write_text("{}\n{\nnull\n7\n[1]\n" + json.dumps(row) + "\n")
    data = (str(tmp_path / "a.jsonl"),)
    own = pipeline(recipe)
    assert samples_of(own, config(data=data)) == [asked]
    assert samples_of(own, config()) == ["The recipe's own"]
    assert samples_of(own, config(data=data, sample_prompts=("x",))) == ["x"]
    assert samples_of(SimpleNamespace(), config(data=data)) == ["The recipe's own"]


def test_the_shortest_that_fit_are_shown_of_held_out_ones_and_of_texts(tmp_path):
    rows = [{"text": text} for text in ("one two three four five six", "one", "a b", "c d")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "b.txt").write_text("six seven")
    own = pipeline("lm")
    a, b = ((str(tmp_path / name),) for name in ("a.jsonl", "b.txt"))
    assert samples_of(own, config(data=a)) == ["a", "c"]
    assert samples_of(own, config(data=a, held_out_data=b)) == ["six"]
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "one"}))
    assert samples_of(own, config(data=(str(tmp_path / "c.jsonl"),))) == ["The recipe's own"]


def test_no_more_than_half_of_a_text_and_eight_words_are_its_first():
    assert first_words(" ".join("abcdefghijklmnopqrst")) == "a b c d e f g h"
    with pytest.raises(ValueError, match="no two words"):
        first_words("a")
