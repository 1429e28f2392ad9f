"""A chat to tokens, by a chat template: those that the assistant says are learned."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.messages import UserError, few
from ..text.prompts import cut_row
from ..tokenizer import make_encoder
from .answers import Span, Writer
from .reading import Chat, Messages, Tools, as_messages

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
VERSION = 3  # of what is learned of a chat
PROBE = Chat([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])

Ids = tuple[
    np.ndarray, np.ndarray
]  # of a chat: ids (N,) int32, and which of them are learned (N,) bool


def prompt_room(config: Any, new_tokens: int) -> int:
    """Return how many tokens a prompt may have: those of an example, if its answer has places behind them.

    new_tokens: of the answer. Raises UserError where nothing is left for the prompt.
    """
    length: int = config.data.sequence_length
    places: int = getattr(config.model, "max_positions", length + new_tokens)
    if places <= new_tokens:
        raise UserError(
            f"--max-positions: {places} leave a prompt no room before an answer of {new_tokens} "
            "tokens: give more, or lower --max-new-tokens of predict.py or NEW_TOKENS in pipeline.py"
        )
    return min(length, places - new_tokens)


@dataclass
class ChatEncoder:
    """A tokenizer of transformers, and the template that it writes chats with.

    template: Jinja, as of transformers, for a tokenizer that brings none, which then brings this one: it goes with what
        is exported, so that a server writes chats as they were learned.
    """

    tokenizer: Any
    template: str = TEMPLATE

    def __post_init__(self) -> None:
        self.tokenizer.chat_template = self.tokenizer.chat_template or self.template

    def key(self) -> list[object]:
        """Return what decides the tokens of chats."""
        special = sorted(self.tokenizer.special_tokens_map.items())
        template = self.tokenizer.chat_template
        return [VERSION, make_encoder(self.tokenizer).dump(), template, str(special)]

    def rows(self, chat: Chat, split: bool = False) -> list[Ids]:
        """Return the rows of a chat, in which each answer is learned once, with what ends it.

        One, unless its template writes earlier answers otherwise once others follow, without their thoughts, say: what
        it does so with has a row of its own, that ends with it. split: whether each answer has.
        Raises ValueError for a chat that the template refuses, or leaves something out of.
        """
        return [self._encode(*row) for row in self._writer.rows(chat, split)]

    def __call__(self, chat: Chat) -> Ids:
        """Return the same of a chat that has one row. Raises ValueError for one that needs several too."""
        first, *more = self.rows(chat)
        if more:
            raise ValueError(
                "has several answers, of which the chat template writes some otherwise once others follow: let what is "
                "before the last be the prompt"
            )
        return first

    def ask(self, messages: Messages, tools: Tools = None) -> np.ndarray:
        """Return the ids (N,) int32 after which the assistant answers. Raises ValueError as `rows`."""
        text = self._writer.write(messages, tools, ask=True)
        self._writer.check(Chat(messages, tools=tools), text)
        return self._encode(text, [])[0]

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

    def read_answers(self, rows: Iterable[np.ndarray], stop_ids: Iterable[int] = ()) -> list[str]:
        """Return the text of each row of ids, up to what ends an answer: `stop_ids` too."""
        # Late: it brings JAX, which a process that makes documents does without.
        from ...run.generation import until

        cut = until(rows, self.ends(stop_ids))
        return [text.strip() for text in self.tokenizer.batch_decode(cut, skip_special_tokens=True)]

    def ends(self, stop_ids: Iterable[int] = ()) -> list[int]:
        """Return the ids that end an answer, those of the template first, and `stop_ids`.

        Raises UserError for a template by which none can be learned.
        """
        try:
            ids, learned = self(PROBE)
        except ValueError as error:
            raise UserError(
                f"--tokenizer: a chat of user, assistant {error}: give --tokenizer FOLDER, a copy whose "
                "chat_template.jinja has {% generation %} before what the assistant says and {% endgeneration %} behind it"
            ) from None
        own, said = self.tokenizer, ids[learned].tolist()
        # Some are special to the tokenizer alone, not by a name; those before the text are its head.
        added = own.added_tokens_decoder.items()
        special = {*own.all_special_ids, *(number for number, token in added if token.special)}
        text = [i for i, one in enumerate(said) if one not in special and "b" in own.decode([one])]
        after = {*said[max(text, default=-1) + 1 :]}
        ends = sorted({*(special & after), own.eos_token_id} - {None})
        return list(dict.fromkeys([*ends, *stop_ids]))

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self.tokenizer)

    def _encode(self, text: str, spans: list[Span]) -> Ids:
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
