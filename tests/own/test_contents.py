"""The output of a class that is trained, and what made-up examples have in each of its inputs."""

import re
from pathlib import Path

import numpy as np
import pytest

from generated import find_own

from redco_new.errors import RedcoError
from redco_new.own.contents import Content, print_array
from redco_new.project.create import create_project
from redco_new.request import Request
from redco_new.request.own_class import Input, OwnClass
from redco_new.update.run import preview_update

HERE = Path(__file__).parent
NAMES = ("input_ids", "attention_mask", "position_ids", "token_type_ids")


def refused(match):
    return pytest.raises(RedcoError, match=re.escape(match))


def own(name, recipe="lm", **said):
    return find_own(f"nets_text.py:{name}", recipe, OwnClass(**said), "my-project", HERE)


def same(array, counts=""):
    return Content("same", array=array, counts=counts)


@pytest.mark.parametrize(
    "said",
    [
        {"example": "nets_text.py:chat"},  # all zeros: they say no more than the shapes do
        {"arguments": {"words": 40}, "inputs": dict.fromkeys(NAMES, Input((12,), "int32"))},
    ],
)
def test_shapes_alone(said):
    chat = own("Chat", **said)
    assert chat.output.source == ".logits"  # not the cache, which has 8 rows and dims too
    assert chat.contents == {
        "input_ids": Content("ids", below=40),
        "attention_mask": same("np.ones(12, np.int32)", "ones"),
        "position_ids": same("np.arange(12, dtype=np.int32)"),
        "token_type_ids": same("np.zeros(12, np.int32)"),
    }
    assert 'jnp.roll(batch["attention_mask"], -1, axis=1)' in chat.pipeline.weights
    assert chat.pipeline.setup == ()


def test_arrays_of_the_user():
    turned = own("Turned", example="nets_text.py:turned")
    assert turned.output.source == ".scores"  # as many as words; hidden states are as wide as rows
    assert turned.contents == {
        "ids": Content("ids", below=40),
        "hidden": same("", "zeros"),
        "positions": same("np.arange(3, 15, dtype=np.int32)"),
    }
    assert "from my_project.model import CLASS_FILE" in turned.pipeline.setup
    assert "_, shown = import_file(CLASS_FILE).turned()" in turned.pipeline.setup
    assert "example['hidden'] = shown['hidden'][0]" in turned.pipeline.arrays
    assert '(batch["hidden"] == 0).sum()' in turned.pipeline.id_count


def test_a_hint_names_what_fits():
    inputs = {"ids": Input((12,), "int32"), "hidden": Input((12,)), "positions": Input((12,))}
    with refused("makes states (8, 12, 24), scores (8, 12, 24), load (8, 12, 3)") as error:
        own("Turned", arguments={"words": 24}, inputs=inputs)
    assert 'give output = "states" or "scores"' in str(error.value)
    with refused("'lod' is not logits of shape (B, 12, words)"):
        own("Turned", arguments={"words": 24}, inputs=inputs, output="lod")


def test_ids_that_are_no_rows():
    inputs = dict.fromkeys(NAMES, Input((12,), "int32"))
    said = {"arguments": {"words": 40}, "inputs": inputs | {"input_ids": Input((12,), "int32", 50)}}
    with refused("input_ids has ids up to 49, and indexes 40 rows; give lower ones"):
        own("Chat", **said)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(3, bool), "np.ones(3, bool)"),
        (np.full((2, 3), 7, np.int32), "np.full((2, 3), 7, np.int32)"),
        (np.arange(2, 9, dtype=np.int32), "np.arange(2, 9, dtype=np.int32)"),
        (np.tril(np.ones((1, 9, 9), np.float32)), "np.tril(np.ones((1, 9, 9), np.float32))"),
        (np.array([3, 1, 2], np.int32), "np.array([3, 1, 2], np.int32)"),
        (np.int32(4), "np.full((), 4, np.int32)"),
        (np.linspace(0, 1, 20, dtype=np.float32), ""),
    ],
)
def test_arrays_are_printed(value, text):
    assert print_array(np.asarray(value)) == text
    if text:
        printed = eval(text)
        assert printed.dtype == value.dtype
        np.testing.assert_array_equal(printed, value)


def test_tokens_that_see_what_they_are_to_predict_are_told():
    assert own("Chat", example="nets_text.py:chat").notes_of_a_run() == []
    turned = own("Turned", example="nets_text.py:turned")
    assert turned.notes_of_a_run()[0].startswith("Turned sees the tokens that lm learns to predict")


def test_an_edited_pipeline_of_texts_is_planned_anew(tmp_path):
    """What only a call tells of a class needs the runtime, of which a project has a part."""
    example = f"{HERE / 'nets_text.py'}:chat"
    asked = {"example": example, "recipe": "lm", "shards": "2"}
    model = example.replace("chat", "Chat")
    create_project(Request.from_flags("p", model, folder=tmp_path / "p", **asked), tmp_path)
    pipeline = tmp_path / "p/p/pipeline.py"
    pipeline.write_text(pipeline.read_text().replace("PROMPT_LENGTH = 6", "PROMPT_LENGTH = 5"))
    assert preview_update(tmp_path / "p", {}).changed_files == {}
