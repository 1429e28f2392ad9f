"""A chat to tokens, by a chat template: those that the assistant says are learned."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from redco_runtime.chats.reading import Messages, as_messages
from redco_runtime.contracts import Arrays
from redco_runtime.errors import UserError, few
from redco_runtime.text.blocks import cut_row
from redco_runtime.text.encoder import id_dtype, make_encoder

# How a chat is written where the tokenizer brings no template of its own.
TEMPLATE = """\
{% for message in messages %}
### {{ message.role }}
{% if message.role == "assistant" %}
{{ message.content }}{{ eos_token }}
{% else %}
{{ message.content }}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}
### assistant
{% endif %}
"""
PROBE = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def prompt_room(config: Any, new_tokens: int) -> int:
    """Return how many tokens a prompt may have: those of an example, if its answer has places behind them.

    new_tokens: of the answer. Raises UserError where nothing is left for the prompt.
    """
    length: int = config.data.sequence_length
    places: int = getattr(config.model, "max_positions", length + new_tokens)
    if places <= new_tokens:
        raise UserError(
            f"--max-positions: {places} leave a prompt no room before an answer of {new_tokens} "
            "tokens: give more, or lower NEW_TOKENS in pipeline.py"
        )
    return min(length, places - new_tokens)


@dataclass
class ChatEncoder:
    """A tokenizer of transformers, and the template that it writes chats with.

    template: Jinja, as of transformers, for a tokenizer that brings none.
    """

    tokenizer: Any
    template: str = TEMPLATE

    def __post_init__(self) -> None:
        self.template = self.tokenizer.chat_template or self.template

    @property
    def dtype(self) -> str:
        """Of ids in a file."""
        return id_dtype(self.tokenizer)

    @property
    def portable(self) -> bool:
        """Whether another process can have it: one that is code in Python may be of this program alone."""
        return bool(self.tokenizer.is_fast)

    def key(self) -> list[object]:
        """Return what decides the tokens of chats."""
        special = sorted(self.tokenizer.special_tokens_map.items())
        return [make_encoder(self.tokenizer).dump(), self.template, str(special)]

    def __call__(self, messages: Messages, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return ids (N,) int32 of a chat, and which of them the assistant says: learned (N,) bool.

        first: the message that is learned first, by number from 0; those before are a prompt.
        What ends an answer is learned too, so that the model ends its own.
        Raises ValueError for a chat that the template refuses, or has no place of its own for.
        """
        whole = self._write(messages)
        spans = []  # of characters
        for number, message in enumerate(messages):
            if number >= first and message["role"] == "assistant":
                before = self._write(messages[:number])
                invited = self._write(messages[:number], answer=True)
                after = self._write(messages[: number + 1])
                if not (whole.startswith(after) and after.startswith(before)):
                    raise ValueError(
                        f"has an answer, message {number + 1}, around which the chat template writes some "
                        "messages otherwise once others follow: make a chat of each answer"
                    )
                # Some templates invite an answer with more than stands before one.
                spans.append((len(os.path.commonprefix([invited, after])), len(after)))
        return self._encode(whole, spans)

    def ask(self, messages: Messages) -> np.ndarray:
        """Return the ids (N,) int32 after which the assistant answers."""
        return self._encode(self._write(messages, answer=True), [])[0]

    def ask_each(self, texts: Iterable[str | Messages], length: int) -> list[Arrays]:
        """Return a row for each text, or chat, that is asked, as of `cut_row`. Raises UserError."""
        chats = [as_messages(text, "user") for text in texts]
        try:
            questions = [self.ask(chat) for chat in chats]
        except ValueError as error:
            roles = few(message["role"] for message in chats[0])
            raise UserError(f"--prompt: a chat of {roles} {error}") from None
        if not all(map(len, questions)):
            raise UserError("--prompt: an empty prompt asks nothing: give a word at least")
        return [cut_row(ids, length) for ids in questions]

    def read_answers(self, rows: Iterable[np.ndarray]) -> list[str]:
        """Return the text of each row of ids, up to what ends an answer."""
        ends = self.ends()
        cut = [row[: np.append(np.isin(row, ends), True).argmax()] for row in rows]
        return [text.strip() for text in self.tokenizer.batch_decode(cut, skip_special_tokens=True)]

    def ends(self) -> list[int]:
        """Return the ids that end an answer."""
        ids, learned = self(PROBE)
        special = {*self.tokenizer.all_special_ids, self.tokenizer.eos_token_id}
        return sorted(special & {*ids[learned].tolist(), self.tokenizer.eos_token_id} - {None})

    def _write(self, messages: Messages, answer: bool = False) -> str:
        """Return a chat as text. answer: as far as to where the assistant answers."""
        from jinja2 import TemplateError

        if not messages:
            return ""
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages,
                chat_template=self.template,
                tokenize=False,
                add_generation_prompt=answer,
            )
        except TemplateError as error:
            raise ValueError(f"is refused by the chat template: {error}") from None
        return text

    def _encode(self, text: str, spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of a text, and which of them begin in the spans of its characters."""
        if self.tokenizer.is_fast:
            tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
            ids = np.array(tokens["input_ids"], np.int32)
            starts = np.array(tokens["offset_mapping"], np.int64).reshape(-1, 2)[:, 0]
            learned = np.zeros(len(ids), bool)
            for start, stop in spans:
                learned |= (start <= starts) & (starts < stop)
            return ids, learned
        # Without places of characters: the text in pieces, which are tokens of bytes or words anyway.
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        parts, flags = [], []
        for number, (start, stop) in enumerate(zip(edges, edges[1:], strict=False)):
            part = self.tokenizer(text[start:stop], add_special_tokens=False)["input_ids"]
            parts += part
            flags += [number % 2 == 1] * len(part)
        return np.array(parts, np.int32), np.array(flags, bool)
