"""What is as long as there is room for is taken; one token more is refused, or cut and said."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from redco_runtime.base.messages import UserError
from redco_runtime.data.chats.documents import ChatMaker
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats.pairs import PairMaker, one_chat
from redco_runtime.data.completions.groups import answer_room
from redco_runtime.data.completions.questions import QuestionReader
from redco_runtime.data.labels.documents import WordLabels
from redco_runtime.data.pictures.captions import encode_caption
from redco_runtime.data.text.prompts import cut_row, pad_row
from redco_runtime.data.text.framed import first_tokens
from redco_runtime.data.tokenizer import load_tokenizer

BYTES = load_tokenizer("bytes")
ENCODER = ChatEncoder(BYTES)
CHAT = {"prompt": "a question", "completion": "an answer"}
PAIR = {"prompt": "a question", "chosen": "an answer", "rejected": "none"}
FIELDS = SimpleNamespace(prompt_field="prompt", answer_field="")
# What takes a row of at most so many tokens, and a row.
TAKES = {
    "chat": (lambda length, row: ChatMaker(ENCODER, length).parse(row), CHAT),
    "pair": (lambda length, row: PairMaker(ENCODER, length).parse(row), PAIR),
    "words": (
        lambda length, row: WordLabels(BYTES, ("x", "y"), ("words", "labels"), length).parse(row),
        {"words": ["a", "b"], "labels": ["x", "y"]},
    ),
    "question": (
        lambda length, row: QuestionReader(FIELDS, ENCODER, length, 300).parse(row),
        {"prompt": "a question"},
    ),
    "a prompt of one chat": (
        lambda length, row: one_chat(row, ENCODER, length),
        '{"prompt": "a question", "completion": "an answer"}',
    ),
    "a prompt of a model without more places": (lambda length, row: pad_row(row, length), [1] * 9),
    "a caption and its end": (lambda length, row: encode_caption(row, length), "a caption"),
}


@pytest.mark.parametrize("name", TAKES)
def test_a_row_is_as_long_as_there_is_room(name):
    take, row = TAKES[name]

    def fits(length):
        try:
            take(length, row)
        except (ValueError, UserError):
            return False
        return True

    least = next(length for length in range(1, 200) if fits(length))
    assert all(fits(least + more) for more in range(5))
    for length in (2, least - 1):
        with pytest.raises((ValueError, UserError)) as error:
            take(length, row)
        there = int(re.search(r"(\d+) (tokens|bytes)", str(error.value))[1])
        assert least == there + ("end" in name), str(error.value)


def test_the_least_room_is_that_of_the_tokens():
    (document,) = ChatMaker(ENCODER, 200).parse(CHAT)
    assert len(ChatMaker(ENCODER, len(document.ids)).parse(CHAT)) == 1
    assert len(encode_caption("abc", 4)) == 4 and pad_row([1, 2], 2)["mask"].all()


@pytest.mark.parametrize("read", [first_tokens, None], ids=["first", "last"])
def test_of_a_prompt_that_is_too_long_so_many_tokens_are_read(read, capsys):
    ids = BYTES("abcd")["input_ids"]
    for length, says in ((len(ids), False), (len(ids) - 1, True)):
        found = read(BYTES, "abcd", length) if read else cut_row(ids, length)["input_ids"]
        assert len(found) == length
        assert ("--prompt: its" in capsys.readouterr().out) is says


@pytest.mark.parametrize(
    ("length", "new", "room"), [(8, 1, 7), (8, 7, 1), (8, 0, None), (8, 8, None)]
)
def test_a_question_has_the_room_that_its_answer_leaves(length, new, room):
    if room is None:
        with pytest.raises(UserError, match=f"--new-tokens: {new} of --sequence-length {length}"):
            answer_room(length, new)
    else:
        assert answer_room(length, new) == room


@pytest.mark.parametrize(
    ("learned", "is_one"), [([0, 1, 0], True), ([0, 0, 1], True), ([1, 0, 0], False)]
)
def test_an_answer_is_learned_behind_another_token(learned, is_one):
    rows = [(np.arange(3), np.array(learned, bool))]
    maker = ChatMaker(SimpleNamespace(rows=lambda *_: rows, tokenizer=BYTES), 3)
    if is_one:
        assert len(maker.rows(None)) == 1
    else:
        with pytest.raises(ValueError, match="nothing to learn"):
            maker.rows(None)
