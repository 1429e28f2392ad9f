"""The scores of one's own that the pages of lm and sft write out: what is asked, and what is right."""

import re
from types import ModuleType

import numpy as np
import pytest
from generated import ROOT
from recipes.pipelines import config, pipeline

from redco_runtime.data.chats.examples import split_answer

ROWS = {"packing": "on", "held_out": 0.5, "tokenizer": "bytes", "sequence_length": 96, "data": ()}
ROWS |= {"text_files": (), "held_out_data": (), "skip_bad_rows": 0, "streaming": False}


def scored(recipe: str) -> ModuleType:
    """The pipeline of a recipe, with what its page adds."""
    module = pipeline(recipe)
    page = (ROOT / f"docs/recipes/{recipe}.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace(f"my_{recipe}.runtime", "redco_runtime")
    exec(compile(code, recipe, "exec"), vars(module))
    return module


@pytest.mark.parametrize("packing", ["on", "off"])
def test_answers_of_a_chat_are_its_own(packing):
    sft, made = scored("sft"), config(ROWS | {"packing": packing}, {"max_positions": 160})
    some = [*sft.examples(made)[1]][:5]
    asked, tokens = sft.questions(made, some), sft.tokenizer("bytes")
    for row, question in zip(some, asked, strict=True):
        text = tokens.decode(question["input_ids"][question["mask"]])
        assert re.fullmatch(r"### user\nWhat is \d+ \+ \d+\?\n### assistant\n", text)
        answer = tokens.decode(split_answer(row)[1], skip_special_tokens=True)
        a, b, c = map(int, re.fullmatch(r"(\d+) \+ (\d+) = (\d+)\n?", answer).groups())
        assert a + b == c and f"What is {a} + {b}?" in text
    assert sft.collate(asked)["input_ids"].shape == (5, 96)
    outputs = np.stack([np.resize(split_answer(row)[1], 64) for row in some])
    assert sft.evaluate(made, outputs, some) == {"right": 1.0}
    outputs[0] = outputs[0][::-1]
    assert sft.evaluate(made, outputs, some) == {"right": 0.8}


def test_the_end_of_a_row_is_the_end_of_its_answer():
    row = {"input_ids": np.arange(6), "segments": np.array([1, 1, 1, 2, 2, 2])}
    row["learned"] = np.array([0, 0, 0, 0, 1, 1], bool)
    assert [ids.tolist() for ids in split_answer(row)] == [[3], [4, 5]]


def test_rows_are_continued_as_they_are():
    lm, made = scored("lm"), config(ROWS, {"vocab_size": 384})
    some = [*lm.examples(made)[1]][:4]
    asked = lm.questions(made, some)
    assert lm.collate(asked)["input_ids"].tolist() == [r["input_ids"][:32].tolist() for r in some]
    outputs = np.stack([row["input_ids"][32:] for row in some])
    assert lm.evaluate(made, outputs, some) == {"same": 1.0}
    assert lm.evaluate(made, outputs + 1, some) == {"same": 0.0}
