"""The recipe sft: what of a chat is learned, by several templates; rows; and what is no chat."""

import json
import pickle
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from recipes.pipelines import pipeline
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from redco_runtime.data.chats.documents import ChatMaker
from redco_runtime.data.chats import encoding
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats.examples import chat_examples
from redco_runtime.data.chats.reading import Chat, with_system
from redco_runtime.base.messages import UserError
from redco_runtime.data.tokenizer import load_tokenizer

sft = pipeline("sft")
CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "See you."},
]
CHATML = """{% for m in messages %}<s>{{ m.role }}
{{ m.content }}</s>
{% endfor %}{% if add_generation_prompt %}<s>assistant
{% endif %}"""
THINKING = CHATML.replace("<s>assistant\n{% endif", "<s>assistant\n<think>{% endif")


def fast(template):
    """A tokenizer of letters, with a template of its own."""
    letters = {chr(i): i - 29 for i in range(32, 127)} | {"\n": 99, "<s>": 1, "</s>": 2, "?": 0}
    whole = Tokenizer(models.WordLevel(letters, unk_token="?"))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokens = PreTrainedTokenizerFast(tokenizer_object=whole, bos_token="<s>", eos_token="</s>")
    tokens.chat_template = template
    return tokens


def learned(tokenizer, messages=CHAT):
    ids, flags = ChatEncoder(tokenizer, encoding.TEMPLATE)(Chat(messages))
    assert ids.dtype == np.int32 and ids.shape == flags.shape
    parts = np.split(ids, np.flatnonzero(np.diff(flags)) + 1)
    said = parts[1::2] if not flags[0] else parts[::2]
    return ["".join(tokenizer.convert_ids_to_tokens(part.tolist())) for part in said]


@pytest.mark.parametrize("template", [CHATML, THINKING])
def test_all_turns_of_the_assistant_are_learned_with_what_ends_them(template):
    assert learned(fast(template)) == ["Hello.</s>\n", "See you.</s>\n"]


def test_the_stated_template_where_a_tokenizer_has_none():
    bytes_ = load_tokenizer("bytes")
    assert learned(bytes_) == ["Hello.</s>", "See you.</s>"]  # it strips what follows
    encoder = ChatEncoder(bytes_, encoding.TEMPLATE)
    assert encoder.ends() == [1]
    assert bytes_.decode(encoder.ask(CHAT[1:2])) == "### user\nHi\n### assistant\n"


def test_a_system_message_comes_before_what_is_asked():
    encoder = ChatEncoder(fast(CHATML))
    (alone,), (row,) = (encoder.ask_each(with_system(["Hi"], x), 64) for x in (None, "Be short."))
    ids = row["input_ids"][row["mask"]]
    np.testing.assert_array_equal(ids, encoder.ask(CHAT[:2]))
    np.testing.assert_array_equal(alone["input_ids"][alone["mask"]], encoder.ask(CHAT[1:2]))
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    encoder = ChatEncoder(fast(refusing + CHATML))
    message = "--prompt: a chat of system, user is refused by the chat template: no system"
    with pytest.raises(UserError, match=message):
        encoder.ask_each(with_system(["Hi"], "Be short."), 64)


@pytest.mark.parametrize("recipe", ["sft", "dpo"])
def test_a_prompt_leaves_its_answer_places_in_the_model(recipe):
    own = pipeline(recipe)

    def row(places):
        data = SimpleNamespace(tokenizer="bytes", sequence_length=128)
        config = SimpleNamespace(data=data, model=SimpleNamespace(max_positions=places))
        return len(own.prompts(config, ["Hi"])[0]["input_ids"]) // (2 if recipe == "dpo" else 1)

    assert [row(128), row(512)] == [128 - own.NEW_TOKENS, 128]
    with pytest.raises(UserError, match="--max-positions: 64 leave a prompt no room"):
        row(own.NEW_TOKENS)


def test_another_process_gets_what_makes_chats():
    maker = ChatMaker(ChatEncoder(fast(CHATML), ""), 64)
    again = pickle.loads(pickle.dumps(maker))
    assert again.key() == maker.key() and again.portable
    assert all(map(np.array_equal, again.encoder(Chat(CHAT)), maker.encoder(Chat(CHAT))))


def test_what_the_assistant_says_weighs():
    batch = {
        "input_ids": jnp.array([[5, 6, 7, 8, 9, 0]]),
        "segments": jnp.array([[1, 1, 1, 2, 2, 0]]),
        "learned": jnp.array([[False, True, True, True, True, False]]),
    }
    labels, weights = sft.targets(batch)
    assert labels[0, :3].tolist() == [6, 7, 8]
    assert weights.tolist() == [[1, 1, 0, 1, 0, 0]]  # the first token of a chat has none before it
    assert sft.count(batch) == 5


def test_an_answer_ends_where_the_model_ends_it():
    config = SimpleNamespace(data=SimpleNamespace(tokenizer="bytes"))
    ids = load_tokenizer("bytes")(["3 = 3", "more"], add_special_tokens=False)["input_ids"]
    rows = [np.array([*ids[0], 1, *ids[1], 300]), np.array(ids[1])]
    assert sft.decode(config, rows, [None, None]) == ["3 = 3", "more"]


@pytest.fixture
def examples(tmp_path):
    """examples(text, **settings): rows of a file of chats."""

    def examples(text, name="chats.jsonl", **changes):
        (tmp_path / name).write_text(text)
        fields = {"data": (str(tmp_path / name),), "held_out_data": (), "held_out": 0.5}
        fields |= {"packing": "on", "skip_bad_rows": 0, "sequence_length": 64}
        fields |= {"token_folder": str(tmp_path / "tokens"), "streaming": False}
        fields["split_turns"] = False
        settings = SimpleNamespace(**fields | changes)
        return chat_examples(settings, ChatEncoder(load_tokenizer("bytes"), encoding.TEMPLATE), 384)

    return examples


ROWS = [
    {"messages": CHAT[1:3]},
    {"prompt": "Name a colour.", "completion": "Blue."},
    {"instruction": "Add.", "input": "1, 2", "output": "3"},
    {"instruction": "Wait.", "output": "Yes."},
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.mark.parametrize(("text", "name"), [(LINES, "a.jsonl"), (json.dumps(ROWS), "a.json")])
def test_chats_share_rows_and_some_are_held_out(examples, text, name):
    train, held_out = examples(text, name, sequence_length=128)
    chats = [row["segments"].max() for row in (*train, *held_out)]
    assert sum(chats) == 4 and len(held_out) == 1 and max(chats) > 1
    row = train[0]
    assert row["input_ids"].shape == row["learned"].shape == (128,)
    assert not row["learned"][row["segments"] == 0].any()
    text = load_tokenizer("bytes").decode(
        np.concatenate([r["input_ids"] for r in (*train, *held_out)])
    )
    assert "### user\nAdd.\n\n1, 2\n### assistant\n3" in text


def test_a_row_each(examples):
    train, held_out = examples(LINES, packing="off", held_out=0.0)
    assert len(train) == 4 and not len(held_out)
    assert "segments" not in train[0] and train[0]["mask"].dtype == bool


def test_chats_are_tokenized_once_and_again_where_the_template_changes(examples, monkeypatch):
    first = [row["input_ids"].tolist() for row in examples(LINES, verify_data=True)[0]]
    encode = ChatMaker.encode
    monkeypatch.setattr(ChatMaker, "encode", None)
    assert [row["input_ids"].tolist() for row in examples(LINES, verify_data=True)[0]] == first
    monkeypatch.setattr(ChatMaker, "encode", encode)
    monkeypatch.setattr(encoding, "TEMPLATE", encoding.TEMPLATE.replace("###", "##"))
    again, _ = examples(LINES, verify_data=True)
    assert [row["input_ids"].tolist() for row in again] != first


def in_parts(*parts):
    """A chat whose question has these parts, as a line."""
    return json.dumps({"messages": [{"role": "user", "content": parts}, CHAT[2]]})


IMAGE = in_parts({"type": "text", "text": "What?"}, {"type": "image", "image": "a.png"})
TEXTLESS = in_parts({"type": "text"})


def test_parts_of_a_content_are_one_text(examples):
    words = [{"type": "text", "text": text} for text in ("H", "i")]
    answer = {"role": "assistant", "content": [{"type": "text", "text": CHAT[2]["content"]}]}
    parts = {"messages": [{"role": "user", "content": words}, answer]}
    settings = {"held_out": 0.0, "packing": "off"}
    (row,), _ = examples(json.dumps(parts), **settings)
    (whole,), _ = examples(json.dumps({"messages": CHAT[1:3]}), **settings)
    assert all(map(np.array_equal, row.values(), whole.values())) and row["learned"].any()


@pytest.mark.parametrize("cut", [2, 4])
def test_of_a_prompt_and_a_completion_of_messages_the_completion_is_learned(examples, cut):
    settings = {"held_out": 0.0, "packing": "off", "sequence_length": 128}
    (row,), _ = examples(json.dumps({"prompt": CHAT[:cut], "completion": CHAT[cut:]}), **settings)
    (whole,), _ = examples(json.dumps({"messages": CHAT}), **settings)
    np.testing.assert_array_equal(row["input_ids"], whole["input_ids"])
    text = load_tokenizer("bytes").decode
    said = [text(one["input_ids"][one["learned"]]) for one in (whole, row)]
    assert said == ["Hello.</s>See you.</s>", "Hello.</s>See you.</s>"[10 * (cut == 4) :]]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"messages": ', "is not JSON"),
        ("[1]", "is no object: [1]"),
        ('{"text": "a"}', "has text, and a chat has 'messages'; 'conversations'; 'prompt'"),
        ('{"messages": []}', "has no list of messages"),
        ('{"messages": "a"}', "has no list of messages"),
        ('{"messages": [{"role": "user"}]}', "message 1 without 'role' and 'content'"),
        ('{"messages": [{"role": "bot", "content": "a"}]}', "message 1 of 'bot', none of system"),
        ('{"prompt": "a", "completion": null}', "a message 2 whose content is no text"),
        (
            json.dumps({"messages": [{**CHAT[1], "content": 3}, CHAT[2]]}),
            "whose content is no text",
        ),
        (IMAGE, 'a message 1 with a part {"type": "image", "image": "a.png"}, and parts are texts'),
        (TEXTLESS, 'message 1 with a part {"type": "text"}, and parts are texts, {"type": "text"'),
        (json.dumps({"messages": CHAT[:2]}), "has no answer of the assistant"),
        (json.dumps({"prompt": CHAT[:3], "completion": CHAT[3:4]}), "has no answer of the assis"),
        (json.dumps({"prompt": CHAT[:2], "completion": ["a"]}), "message 3 without 'role' and"),
        (json.dumps({"prompt": "a" * 90, "completion": "b"}), "more than --sequence-length 64"),
    ],
)
def test_what_is_no_chat_is_named_with_its_line(examples, row, why):
    with pytest.raises(UserError) as error:
        examples(LINES + row + "\n")
    assert "chats.jsonl, line 5 " in str(error.value) and why in str(error.value)
    train, held_out = examples(LINES + row + "\n", skip_bad_rows=1)
    assert sum(row["segments"].max() for row in (*train, *held_out)) == 4


def test_texts_are_no_chats(examples):
    with pytest.raises(UserError, match="has text, and no rows: give .jsonl"):
        examples("a text", "a.txt")


def test_a_question_is_cut_to_what_the_model_has_places_for(capsys):
    encoder = ChatEncoder(load_tokenizer("bytes"), encoding.TEMPLATE)
    (row,) = encoder.ask_each(["What is this?"], 12)
    whole = encoder.ask([{"role": "user", "content": "What is this?"}])
    np.testing.assert_array_equal(row["input_ids"], whole[-12:])
    assert f"its last 12 tokens are read, of {len(whole)}" in capsys.readouterr().out
    with pytest.raises(UserError, match="no place for a prompt beside its continuation"):
        encoder.ask_each(["Hi"], 0)
