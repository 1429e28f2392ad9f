"""A chat as its template writes it, and where in that text the assistant speaks.

A template that marks it, by {% generation %}, is obeyed. Of any other an answer begins where the text that invites
one ends, and marks in the place of texts show what is written around them. Some templates write an earlier turn
otherwise once others follow, without what was thought, say: what they do so is learned in a text of its own, as
the model wrote it. Some, such as GLM's, write nothing behind an answer: the token that the next message begins with
ends it, and is learned.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from os.path import commonprefix
from typing import Any, NamedTuple

from .reading import THOUGHTS, Chat, Messages, Tools

Span = tuple[int, int]  # of characters: the first, and the one after the last
MARKED = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
MARKS = range(0xE000, 0xF8FF)  # characters that mean nothing by themselves


class Written(NamedTuple):
    """A text of a chat, and the answers in it that are learned."""

    text: str
    spans: list[Span]


class Answer(NamedTuple):
    """An answer, as it is written where nothing follows."""

    text: str  # of the chat, up to its end
    start: int  # where it begins
    closing: int  # how many characters close any answer
    next_token: str  # of the next message; ends the answer where the template writes nothing behind


@dataclass(frozen=True)
class Writer:
    """Writes chats with a tokenizer's template. Raises ValueError."""

    tokenizer: Any

    def write(self, messages: Messages, tools: Tools = None, ask: bool = False) -> str:
        """Return a chat as text. ask: as far as to where the assistant answers."""
        return self._render(messages, tools, ask)[0]

    def rows(self, chat: Chat, split: bool = False) -> list[Written]:
        """Return the texts in which each answer that is learned stands once: one, unless the template rewrites.

        split: a text for each.
        """
        whole = self.write(chat.messages, chat.tools)
        self.check(chat, whole)
        if MARKED.search(self._template(chat.tools)):
            return self._marked(chat, split)
        answers = {number: self._answer(chat, number) for number in chat.answers}
        left, rows = chat.answers, list[Written]()
        text = answers[left[-1]].text if split else whole
        while left:
            own = left[-1:] if split else left
            ends = {number: self._end(answers[number], text) for number in own}
            spans = [(answers[number].start, end) for number, end in ends.items() if end]
            if spans:
                if spans[-1][1] == len(text) + len(answers[own[-1]].next_token):
                    text += answers[own[-1]].next_token
                rows.insert(0, Written(text, spans))
                left = [number for number in left if not ends.get(number)]
            text = answers[left[-1]].text if left else ""
        return rows

    def _marked(self, chat: Chat, split: bool) -> list[Written]:
        """Return the same, of a template that marks answers."""
        learned, rows = chat.answers, []
        for some in [[number] for number in learned] if split else [learned]:
            messages = chat.messages[: some[0] + 1] if split else chat.messages
            text, spans = self._render(messages, chat.tools, marked=True)
            said = [number for number, one in enumerate(messages) if one["role"] == "assistant"]
            if some != said:
                befores = [self.write(messages[:number], chat.tools) for number in said]
                begins = [self._shared(before, text) for before in befores]
                of = [said[max(0, bisect_right(begins, span[0]) - 1)] for span in spans]
                spans = [span for span, number in zip(spans, of, strict=True) if number in some]
            if not spans:
                raise ValueError("has no answer in which the chat template marks anything")
            rows.append(Written(text, spans))
        return rows

    def check(self, chat: Chat, text: str) -> None:
        """Raise ValueError where a text of the chat lacks what others say in it, or what an answer calls."""
        for number, one in enumerate(chat.messages, 1):
            said, what = one["content"].strip(), f"a message {number} of {one['role']}"
            if one["role"] != "assistant" and not any(x in text for x in (said, _escaped(said))):
                raise ValueError(f"has {what}, which the chat template leaves out")
            if any(call["function"]["name"] not in text for call in one.get("tool_calls", ())):
                raise ValueError(f"has {what} with tool_calls, which the chat template leaves out")
        if any(tool["function"]["name"] not in text for tool in chat.tools or ()):
            raise ValueError("has tools, which the chat template leaves out")

    def _answer(self, chat: Chat, number: int) -> Answer:
        """Return the answer that is message `number`, from 0."""
        before, own = chat.messages[:number], chat.messages[number]
        text = self.write(chat.messages[: number + 1], chat.tools)
        for part in (*re.split("</?think>", own["content"]), *filter(None, map(own.get, THOUGHTS))):
            if _bare(part) not in _bare(text):
                what = f"of which the chat template leaves out {part.strip()[:40]!r}"
                raise ValueError(f"has an answer, message {number + 1}, {what}")
        free = (chr(mark) for mark in MARKS if chr(mark) not in text)
        last, mark = next(free), next(free)
        ended = [{**one, "content": one["content"] + last} for one in before[-1:]]
        shown = self.write(
            [*before[:-1], *ended, {"role": "assistant", "content": mark}], chat.tools
        )
        head, _, closing = shown.rpartition(mark)
        if mark not in shown:
            raise ValueError(
                f"has an answer, message {number + 1}, of which the chat template leaves out the text"
            )
        # What is said last ends at `edge`; behind it is the head of the answer, which may be more than invites it.
        edge = self._shared(shown, text)
        head = head[edge:].removeprefix(last)
        start = edge + self._shared(head, text[edge:])
        if before:
            ask = self.write(before, chat.tools, ask=True)
            start = len(ask) if text.startswith(ask) else min(start, self._shared(ask, text))
        if start < edge and last in shown:
            raise ValueError(
                f"has an answer, message {number + 1}, before which the chat template writes the chat otherwise "
                "than where it invites one"
            )
        role = "tool" if own.get("tool_calls") else "user"
        next_token = "" if closing else self._next_token(before, mark, role)
        return Answer(text, start, len(closing) if text.endswith(closing) else 0, next_token)

    def _next_token(self, before: Messages, mark: str, role: str) -> str:
        """Return the special token that a message of `role` begins with behind an answer; "" for none."""
        follows = [*before, {"role": "assistant", "content": mark}, {"role": role, "content": "a"}]
        try:
            text = self.write(follows)
        except ValueError:  # nothing may follow
            return ""
        token = self._added.match(text, text.find(mark) + len(mark))
        return token.group() if token else ""

    def _end(self, answer: Answer, text: str) -> int:
        """Return where an answer ends in a text of its chat; 0 where that has it otherwise.

        What closes a text only need not be there, but all of the answer, and something that ends it.
        """
        same = self._shared(answer.text, text)
        whole = len(answer.text)
        return (
            same + len(answer.next_token) if same == whole or whole - same < answer.closing else 0
        )

    def _shared(self, one: str, other: str) -> int:
        """Return how many characters two texts begin with alike, without a part of a special token."""
        count = len(commonprefix([one, other]))
        edge = max(0, count - self._longest)
        for text in (one, other):
            for token in self._added.finditer(text, edge, count + self._longest):
                if token.start() < count < token.end():
                    count = token.start()
        return count

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.tokenizer.get_added_vocab()), default=0)

    @cached_property
    def _added(self) -> re.Pattern[str]:
        tokens = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, tokens)) or "(?!)")

    def _template(self, tools: Tools) -> str:
        try:  # some bring one for each use
            return str(self.tokenizer.get_chat_template(None, tools))
        except ValueError as error:
            raise ValueError(f"is refused by the tokenizer: {error}") from None

    def _render(
        self, messages: Messages, tools: Tools, ask: bool = False, marked: bool = False
    ) -> tuple[str, list[Span]]:
        """Return a chat as text, and what the template marks in it, where that is asked."""
        template = self._template(tools)
        if "developer" not in template:  # as OpenAI has called the system since o1
            called = {"developer": "system"}
            messages = [one | {"role": called.get(one["role"], one["role"])} for one in messages]
        try:
            try:
                return self._apply(messages, tools, template, ask, marked)
            except TypeError:  # it puts arguments into a text, where most write them as JSON
                return self._apply(_with_texts(messages), tools, template, ask, marked)
        except Exception as error:  # a template is a program: it fails in any way
            raise ValueError(f"is refused by the chat template: {error}") from None

    def _apply(
        self, messages: Messages, tools: Tools, template: str, ask: bool, marked: bool
    ) -> tuple[str, list[Span]]:
        from transformers.utils.chat_template_utils import render_jinja_template

        if not messages:
            return "", []
        own: Any = tools  # functions in Python may be tools too
        rendered: Any = render_jinja_template(
            conversations=[messages],
            tools=own,
            chat_template=template,
            return_assistant_tokens_mask=marked,
            add_generation_prompt=ask,
            **self.tokenizer.special_tokens_map,
        )
        texts, spans = rendered
        return texts[0], [*spans[0]] if marked else []


def _with_texts(messages: Messages) -> Messages:
    """Return messages whose calls have arguments as texts of JSON."""
    return [
        (
            message | {"tool_calls": [_with_text(call) for call in message["tool_calls"]]}
            if "tool_calls" in message
            else message
        )
        for message in messages
    ]


def _with_text(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return call | {"function": function | {"arguments": arguments}}


def _bare(text: str) -> str:
    """Return a text without spaces and line ends, which templates add and strip."""
    return "".join(text.split())


def _escaped(text: str) -> str:
    """Return a text as JSON has it, without quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
