"""What is learned of a chat, by a published template: ours, and TRL's by its own of the same model, which marks answers."""

import re
from dataclasses import dataclass, field
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from redco_runtime.data.chats.answers import MARKED, Writer
from redco_runtime.data.chats.reading import read_chat

SPECIAL = re.compile(
    r"<[|｜][^<>\n]+?[|｜]>|<\|?\w+\|?>|</\w+>|\[/?\w+\]"
)  # as templates write such tokens
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "Where"}}}
WEATHER = {
    "name": "weather",
    "description": "Say the weather.",
    "parameters": CITY | {"required": ["city"]},
}


def turn(question: str, answer: str, **more: Any) -> list[dict[str, Any]]:
    """Return a question and its answer."""
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer, **more},
    ]


ONE, SYSTEM = turn("Hi", "Hello."), {"role": "system", "content": "Be short."}
WET = {"role": "tool", "name": "weather", "content": "wet"}
RAIN = {"role": "assistant", "content": "It rains."}
CHATS = {
    "one turn": {"messages": ONE},
    "a system message": {"messages": [SYSTEM, *ONE]},
    "two turns": {"messages": [*ONE, *turn("Bye", "See you.")]},
    "thoughts": {"messages": turn("Hi", "Hello.", reasoning_content="A greeting.")},
    "a call": {
        "messages": [*turn("Weather?", "", tool_calls=[CALL]), WET, RAIN],
        "tools": [{"type": "function", "function": WEATHER}],
    },
}
Rows = list[list[Any]] | None  # of each row its text, and what is learned; None: refused


@dataclass
class Tokens:
    """What a template asks of a tokenizer."""

    chat_template: str
    special_tokens_map: dict[str, str] = field(
        default_factory=lambda: {"bos_token": "<bos>", "eos_token": "<|endoftext|>"}
    )

    def get_added_vocab(self) -> dict[str, int]:
        """Return the special tokens that the template writes."""
        return dict.fromkeys([*SPECIAL.findall(self.chat_template), "<|endoftext|>"], 0)

    def get_chat_template(self, name: None, tools: Any) -> str:
        """Return the template."""
        return self.chat_template


def ours(template: str, row: dict[str, Any]) -> Rows:
    """Return the rows of a chat, None where it is refused."""
    try:
        rows = Writer(Tokens(template)).rows(read_chat(row))
    except ValueError:
        return None
    return [[text, [text[start:stop] for start, stop in spans]] for text, spans in rows]


def theirs(template: str, row: dict[str, Any]) -> Rows:
    """Return the same of TRL, by a template that marks answers."""
    own = Tokens(template).special_tokens_map
    try:
        (text,), (spans,) = render_jinja_template(
            [row["messages"]],
            row.get("tools"),
            chat_template=template,
            return_assistant_tokens_mask=True,
            **own,
        )
    except Exception:  # a template is a program: it fails in any way
        return None
    edges: list[list[int]] = []
    for start, stop in spans:  # end to end is one
        if edges and edges[-1][1] == start:
            edges[-1][1] = stop
        elif start < stop:
            edges.append([start, stop])
    return [[text, [text[start:stop] for start, stop in edges]]]


def verdict(own: Rows, peer: Rows, has_peer: bool) -> str:
    """Return how what is learned differs, in words of the table."""
    if not has_peer:
        return f"learned: {shown(own[-1][1][-1:])}" if own else "refused"
    if own == peer:
        return "the same" if own else "both refuse"
    if own is None:
        return "refused"
    if peer is None:
        return "TRL refuses"
    if len(own) > 1:
        return f"{len(own)} rows"
    if own[0][0] != peer[0][0]:
        return "another text"
    pairs = list(zip(own[0][1], peer[0][1], strict=False))
    if len(own[0][1]) == len(peer[0][1]) and all(b.endswith(a) for a, b in pairs):
        heads = dict.fromkeys(b.removesuffix(a) for a, b in pairs if a != b)
        return f"TRL learns {shown(heads)} too"
    return f"ours: {shown(own[0][1])}; TRL: {shown(peer[0][1])}"


def shown(texts: Any) -> str:
    """Return texts as the table has them."""
    return ", ".join("`" + repr(text)[1:-1].replace("|", "\\|") + "`" for text in texts)


def marks_answers(template: str) -> bool:
    """Return whether a template says itself what the assistant writes."""
    return bool(MARKED.search(template))
