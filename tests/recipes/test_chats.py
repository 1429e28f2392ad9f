"""Chats as people have them and as models' templates write them: what is learned, and what is refused."""

import json
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from redco_runtime.data.chats.answers import Writer
from redco_runtime.data.chats.documents import ChatMaker
from redco_runtime.data.chats.encoding import ChatEncoder
from redco_runtime.data.chats import examples
from redco_runtime.data.chats.examples import chat_examples
from redco_runtime.data.chats.pairs import PairMaker, read_pair
from redco_runtime.data.chats.reading import Chat, read_chat
from redco_runtime.base.messages import UserError


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


SYSTEM, TOOL = {"role": "system", "content": "Be short."}, {"role": "tool", "content": "wet"}
ONE = [user("Hi"), answer("Hello.")]
TWO = [*ONE, user("Bye"), answer("See you.")]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
CALLS = [user("Weather?"), answer("", tool_calls=[CALL]), TOOL, answer("It rains.")]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {}}}

# As the models have them, in short: a text ends with eos; thinking is cut from earlier turns, and an answer without
# has an empty one where it is the last; the last answer ends otherwise; an invitation says more than an answer has.
PHI3 = """{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""
QWEN3 = """{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% set ns = namespace(last=0) %}\
{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
{% for m in messages %}{% set said = m.content.split('</think>')[-1].lstrip('\n') %}\
{% set thought = m.content.split('</think>')[0].split('<think>')[-1].strip('\n') if '</think>' in m.content else '' %}\
{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}\
{{ '<think>\n' + thought + '\n</think>\n\n' }}{% endif %}{{ said }}\
{% for call in m.tool_calls or [] %}{{ '<tool_call>' + call.function | tojson }}{% endfor %}{{ '<|im_end|>\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
GPT_OSS = """{% for m in messages %}{{ '<|start|>' + m.role }}{% if m.role == 'assistant' %}{{ '<|channel|>final' }}\
{% endif %}{{ '<|message|>' + m.content }}\
{% if loop.last and m.role == 'assistant' %}<|return|>{% else %}<|end|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}<|start|>assistant{% endif %}"""
DEEPSEEK = """{% for m in messages %}{{ '<|User|>' if m.role == 'user' else '<|Assistant|>' }}{{ m.content }}\
{% for call in m.tool_calls or [] %}{{ '<call>' + call.function.name + '\n' + call.function.arguments }}{% endfor %}\
{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}"""
GENERATION = """{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}\
{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}<|assistant|>{% endif %}"""

GLM = """{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
MISTRAL = """{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}\
{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"""


def tokenizer(template, eos="<|endoftext|>"):
    """A tokenizer of bytes and of the special tokens of a template, which it brings."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    own = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    special = {
        *re.findall(r"<\|\w+\|>|</?think>", str(template)),
        "<|user|>",
        "<|system|>",
        "<|end|>",
    }
    own.add_special_tokens(sorted({*special, "<|assistant|>", eos}))
    tokens = PreTrainedTokenizerFast(tokenizer_object=own, eos_token=eos)
    tokens.chat_template = template
    return tokens


def learned(template, chat, split=False, **row):
    """What is learned of each row of a chat."""
    own = ChatEncoder(tokenizer(template))
    rows = own.rows(read_chat(row | ({"messages": chat} if chat else {})), split)
    return [said(own.tokenizer, *row) for row in rows]


def said(tokens, ids, flags):
    parts = np.split(ids, np.flatnonzero(np.diff(flags)) + 1)
    return [tokens.decode(part) for part in (parts[::2] if flags[0] else parts[1::2])]


THOUGHT = [
    answer(f"<think>\n{x}\n</think>\n\n{one['content']}")
    for x, one in zip("AB", TWO[1::2], strict=True)
]
EMPTY = "<think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    ("template", "chat", "rows"),
    [
        # Tokens and masks of TRL 1.16's phi3_training.jinja.
        (PHI3, [SYSTEM, *ONE], [["Hello.<|end|>\n<|endoftext|>"]]),
        (PHI3, TWO, [["Hello.<|end|>\n", "See you.<|end|>\n<|endoftext|>"]]),
        (PHI3, [*TWO, user("Well")], [["Hello.<|end|>\n", "See you.<|end|>\n"]]),
        # Of one turn those of qwen3_training.jinja, which writes the thinking of all turns into one row.
        (QWEN3, ONE, [[f"{EMPTY}Hello.<|im_end|>\n"]]),
        (QWEN3, TWO, [[f"{EMPTY}Hello.<|im_end|>\n"], [f"{EMPTY}See you.<|im_end|>\n"]]),
        (
            QWEN3,
            [user("Hi"), THOUGHT[0], user("Bye"), THOUGHT[1]],
            [
                ["<think>\nA\n</think>\n\nHello.<|im_end|>\n"],
                ["<think>\nB\n</think>\n\nSee you.<|im_end|>\n"],
            ],
        ),
        # Those of one question are in one row, where each thinks.
        (
            QWEN3,
            [user("Hi"), THOUGHT[0], TOOL, THOUGHT[1]],
            [
                [
                    "<think>\nA\n</think>\n\nHello.<|im_end|>\n",
                    "<think>\nB\n</think>\n\nSee you.<|im_end|>\n",
                ]
            ],
        ),
        # TRL learns the head too, which an invitation says, and "<|end|>" of earlier answers.
        (
            GPT_OSS,
            TWO,
            [
                ["<|channel|>final<|message|>Hello.<|return|>"],
                ["<|channel|>final<|message|>See you.<|return|>"],
            ],
        ),
        (DEEPSEEK, [user("Hi"), answer("<table>")], [["<table><|end|>"]]),
        (DEEPSEEK, [user("Hi"), answer("<think>\nA")], [["A<|end|>"]]),
        (MISTRAL, TWO, [["Hello.<|endoftext|>", "See you.<|endoftext|>"]]),
        (GLM, TWO, [["\nHello.<|user|>", "\nSee you.<|user|>"]]),
        (GENERATION, TWO, [["Hello.<|end|>", "See you.<|end|>"]]),
        (GENERATION, [answer("Yes?"), *ONE], [["Yes?<|end|>", "Hello.<|end|>"]]),
    ],
)
def test_answers_are_learned_as_their_models_write_them(template, chat, rows):
    assert learned(template, chat) == rows


def test_what_ends_an_answer_stops_one():
    own = tokenizer(GLM)
    assert ChatEncoder(own).ends() == own.convert_tokens_to_ids(["<|endoftext|>", "<|user|>"])


@pytest.mark.parametrize("template", [PHI3, GENERATION])
def test_each_answer_has_a_row_of_its_own_where_that_is_asked(template):
    assert learned(template, ONE, split=True) == learned(template, ONE)
    (first,), (second,) = learned(template, TWO, split=True)
    assert first.startswith("Hello.<|end|>") and second.startswith("See you.<|end|>")
    own = ChatEncoder(tokenizer(template))
    texts = [own.tokenizer.decode(ids) for ids, _ in own.rows(Chat(TWO), split=True)]
    assert "Bye" not in texts[0] and "Hello." in texts[1]


@pytest.mark.parametrize("template", [PHI3, GENERATION])
def test_a_prompt_and_what_weighs_nothing_are_not_learned(template):
    own = ChatEncoder(tokenizer(template))
    row = {"prompt": TWO[:3], "completion": TWO[3:]}
    for chat in (row, {"messages": [user("Hi"), answer("Hello.", weight=0), *TWO[2:]]}):
        ((ids, flags),) = own.rows(read_chat(chat))
        assert said(own.tokenizer, ids, flags)[0].startswith("See you.<|end|>")
    with pytest.raises(ValueError, match="message 2 of weight 2: give 0, or 1"):
        read_chat({"messages": [user("Hi"), answer("Hello.", weight=2)]})


def test_the_tools_of_a_row_reach_the_template_and_calls_are_learned():
    (first,), (last,) = learned(QWEN3, CALLS, tools=[WEATHER])
    assert '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}<|im_end|>' in first
    own = ChatEncoder(tokenizer(QWEN3))
    assert json.dumps(WEATHER) in own.tokenizer.decode(own.ask(CALLS[:1], [WEATHER]))
    # A template that puts arguments into a text gets them as one.
    call = DEEPSEEK.replace("for m in messages", "for m in messages if m.role != 'tool'")
    with pytest.raises(ValueError, match="message 3 of tool, which the chat template leaves out"):
        learned(call, CALLS)
    assert learned(DEEPSEEK, CALLS[:2]) == [['<call>weather\n{"city": "Paris"}<|end|>']]


WHOLE = read_chat({"messages": CALLS, "tools": [WEATHER]})
TEXT = {"name": "weather", "arguments": '{"city": "Paris"}'}


@pytest.mark.parametrize(
    "row",
    [
        {
            "messages": [
                CALLS[0],
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"type": "function", "function": TEXT}],
                },
                *CALLS[2:],
            ],
            "tools": [WEATHER],
        },
        {
            "messages": [CALLS[0], {"role": "assistant", "tool_calls": [TEXT]}, *CALLS[2:]],
            "tools": json.dumps([WEATHER["function"]]),
        },
        {
            "messages": [
                CALLS[0],
                {"role": "assistant", "content": None, "function_call": TEXT},
                {"role": "function", "content": "wet"},
                CALLS[3],
            ],
            "functions": [WEATHER["function"]],
        },
        {
            "conversations": [
                {"from": "human", "value": "Weather?"},
                {"from": "function_call", "value": json.dumps(TEXT)},
                {"from": "observation", "value": "wet"},
                {"from": "gpt", "value": "It rains."},
            ],
            "tools": json.dumps([WEATHER]),
        },
        {"prompt": CALLS[:1], "completion": CALLS[1:], "tools": [WEATHER]},
    ],
)
def test_a_call_is_the_same_in_all_formats(row):
    chat = read_chat(row)
    assert chat.tools == WHOLE.tools and chat.answers == WHOLE.answers
    assert chat.messages == WHOLE.messages


def test_a_system_message_beside_the_chat_is_its_first():
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]
    for row in (
        {"conversations": turns},
        {"instruction": "Hi", "output": "Hello."},
        {"prompt": "Hi", "completion": "Hello."},
    ):
        assert read_chat(row | {"system": "Be short."}).messages == [SYSTEM, *ONE]
        assert read_chat(row | {"system": ""}).messages == ONE
    assert read_chat({"messages": [SYSTEM, *ONE], "system": "Be long."}).messages == [SYSTEM, *ONE]


def test_a_developer_is_the_system_to_a_template_that_knows_none():
    chat = [{"role": "developer", "content": "Be short."}, *ONE]
    own = ChatEncoder(tokenizer(PHI3))
    ((ids, _),) = own.rows(Chat(chat))
    assert own.tokenizer.decode(ids).startswith("<|system|>\nBe short.")
    own = ChatEncoder(tokenizer(PHI3 + "{# developer #}"))
    assert "developer" in own.tokenizer.decode(own.rows(Chat(chat))[0][0])


@pytest.mark.parametrize(
    ("template", "row", "why"),
    [
        (
            PHI3,
            {"messages": CALLS},
            "has a message 2 of assistant with tool_calls, which the chat template",
        ),
        (
            PHI3,
            {"messages": ONE, "tools": [WEATHER]},
            "has tools, which the chat template leaves out",
        ),
        (
            PHI3,
            {"messages": [user("Hi"), answer("Hello.", thinking="Hm")]},
            "message 2, of which the chat template leaves out 'Hm'",
        ),
        (
            PHI3,
            {"messages": [user("Hi"), {"role": "assistant", "content": None}]},
            "message 2 whose content is no text",
        ),
        (PHI3, {"messages": CALLS, "tools": "x"}, "has tools that are no JSON: x"),
        (PHI3, {"messages": CALLS, "tools": {"a": 1}}, "has tools that are no list"),
        (PHI3, {"messages": CALLS, "tools": [3]}, "has tools of which one is not {"),
        (
            PHI3,
            {"messages": [user("Hi"), answer("", tool_calls=[{"name": "f", "arguments": "{"}])]},
            "message 2 with arguments of a call that are no JSON: {",
        ),
        (
            PHI3,
            {"messages": [user("Hi"), answer("", tool_calls=[{}])]},
            "message 2 with a call of no tool",
        ),
        (
            PHI3,
            {"messages": [user("Hi"), answer("", tool_calls={"name": "f"})]},
            "message 2 whose tool_calls are no list",
        ),
        (
            PHI3,
            {"messages": [user("Hi"), answer("", tool_calls=[{"name": "f", "arguments": "[]"}])]},
            "message 2 with arguments of a call that are no object",
        ),
        (
            PHI3,
            {"conversations": [{"from": "bot", "value": "a"}]},
            "message 1 of 'bot', none of system",
        ),
        (
            PHI3.replace("{% for m", "{{ 1 // 0 }}{% for m"),
            {"messages": ONE},
            "is refused by the chat template: ",
        ),
    ],
)
def test_what_cannot_be_learned_is_named(template, row, why):
    with pytest.raises(ValueError) as error:
        learned(template, None, **row)
    assert why in str(error.value)


def test_a_template_that_leaves_answers_out_is_refused_with_what_to_do():
    own = ChatEncoder(
        tokenizer("{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}")
    )
    with pytest.raises(UserError, match="--tokenizer: .*leaves out.*has {% generation %} before"):
        own.ends()
    own = ChatEncoder(tokenizer(PHI3))
    assert {*own.tokenizer.convert_ids_to_tokens(own.ends())} == {"<|end|>", "<|endoftext|>"}


def test_a_tokenizer_of_several_templates_uses_that_of_tools():
    own = tokenizer({"default": PHI3, "tool_use": QWEN3})
    maker = pickle.loads(pickle.dumps(ChatMaker(ChatEncoder(own), 512)))
    ids = [one.ids for one in maker.rows(Chat(ONE)) + maker.rows(Chat(ONE, tools=[WEATHER]))]
    texts = [own.decode(row) for row in ids]
    assert texts[0].startswith("<|user|>") and json.dumps(WEATHER) in texts[1]


def test_the_longest_special_token_is_not_parted():
    own = SimpleNamespace(get_added_vocab=lambda: {"<e>": 0, "<e><e>": 1})
    assert Writer(own)._shared("a<e><e>b", "a<e><x>b") == 1


def test_of_a_pair_only_what_differs_is_learned():
    """What is before weighs the same in both, and qwen3's template would write it otherwise than it was answered."""
    worse = [*TWO[:3], answer("No.")]
    for row in (
        {"chosen": TWO, "rejected": worse},
        {"prompt": TWO[:3], "chosen": TWO[3:], "rejected": worse[3:]},
    ):
        tokens = PairMaker(ChatEncoder(tokenizer(QWEN3)), 256).join(read_pair(row))
        both = [tokens.ids[tokens.marks == mark] for mark in (2, 4)]
        text = [tokenizer(QWEN3).decode(ids) for ids in both]
        assert text == [f"{EMPTY}{x}<|im_end|>\n" for x in ("See you.", "No.")]
    with pytest.raises(
        ValueError, match="several answers.*let what is before the last be the prompt"
    ):
        other = [ONE[0], answer("What?"), *TWO[2:]]
        PairMaker(ChatEncoder(tokenizer(QWEN3)), 256).join(
            read_pair({"chosen": TWO, "rejected": other})
        )


@pytest.fixture
def rows(tmp_path):
    """rows(lines, **settings): the training rows of a file."""

    def rows(lines, **changes):
        (tmp_path / "chats.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        fields = {"data": (str(tmp_path / "chats.jsonl"),), "held_out_data": (), "held_out": 0.0}
        fields |= {"packing": "off", "skip_bad_rows": 0, "sequence_length": 128, "streaming": False}
        fields |= {"token_folder": str(tmp_path / "tokens"), "split_turns": False}
        own = ChatEncoder(tokenizer(QWEN3))
        return chat_examples(SimpleNamespace(**fields | changes), own, 384)[0]

    return rows


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_row_is_split_before_the_first_answer_of_a_chat(start):
    segments = np.array([1, 1, 2, 2, 2, 2])  # of a row that begins with the end of another chat
    learned = np.arange(6) == 2 + start
    row = {"input_ids": np.arange(6), "segments": segments, "learned": learned}
    question, said = examples.split_answer(row)
    assert question.tolist() == [*range(2, 2 + start)] and said.tolist() == [2 + start]
    row = {"input_ids": np.arange(3), "mask": np.ones(3, bool), "learned": np.arange(3) >= start}
    question, said = examples.split_answer(row)
    assert question.tolist() == [*range(start or 1)] and said.tolist() == [*range(start, 3)]


def test_an_older_config_that_lacks_the_setting_splits_no_turns(monkeypatch):
    monkeypatch.setattr(examples, "ChatMaker", lambda encoder, length, split: split)
    monkeypatch.setattr(examples, "read_or_stream", lambda settings, maker, vocabulary: maker)
    settings, encoder = SimpleNamespace(sequence_length=8), SimpleNamespace(ends=lambda: None)
    assert chat_examples(settings, encoder, 1) is False


def test_answers_that_are_apart_are_said(rows, capfd):
    train = rows([{"messages": TWO}, {"messages": ONE}])
    assert len(train) == 3
    line = capfd.readouterr().out
    assert (
        "2 chats of" in line and "1 answers are apart from their chats, since the template" in line
    )


def test_all_bad_rows_are_counted_in_one_run_and_the_first_are_named(rows):
    lines = [
        {"messages": ONE},
        *([{"text": "a"}] * 30),
        {"messages": ONE},
        {"messages": [user("\ud83d")]},
    ]
    with pytest.raises(UserError) as error:
        rows(lines)
    text = str(error.value)
    assert "has 31 bad rows, and --skip-bad-rows is 0:" in text and "and 21 more" in text
    assert all(f"chats.jsonl, line {number} has text" in text for number in range(2, 12))
    assert "line 12" not in text
    assert len(rows(lines, skip_bad_rows=31)) == 2
    with pytest.raises(UserError, match="has 10 bad rows") as error:
        rows(lines[:11])
    assert "more" not in str(error.value)
