"""Pairs of chats, of which people prefer the first: what a model of preferences learns from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from ...base.examples import Arrays, Example
from ...base.messages import UserError, few
from ...base.files import parse_json
from ..text.documents import Tokens
from ..text.examples import read_examples
from ..text.in_memory import one_a_row, pack_examples
from .documents import ChatMaker
from .encoding import ChatEncoder
from .reading import Chat, Messages, as_chat, as_messages, read_chat

SIDES = ("chosen", "rejected")
Pair = tuple[Chat, Chat]


@dataclass
class PairMaker(ChatMaker):
    """A Maker of pairs: the chosen chat, and behind it the rejected one. length: of each, at most.

    "said" of a token: 1 in the chosen chat and 3 in the rejected one, and 1 more where the assistant says it.
    """

    noun: ClassVar[str] = "pair"
    marks: ClassVar[Mapping[str, str]] = {"said": "uint8"}

    def key(self) -> list[object]:
        return [self.noun, self.encoder.key(), self.length]

    def parse(self, row: Any) -> list[Tokens]:
        return [self.join(read_pair(row))]

    def join(self, pair: Pair) -> Tokens:
        """Return a pair as a document. Raises ValueError for one that is none."""
        ids, said = [], []
        for side, (name, chat) in enumerate(zip(SIDES, pair, strict=True)):
            own, learned = self.encoder(chat)
            if len(own) > self.length:
                most = f"more than --sequence-length {self.length}"
                raise ValueError(f"has {len(own)} tokens in what is {name}, {most}")
            ids.append(own)
            said.append(1 + 2 * side + learned.astype(np.uint8))
        return Tokens(np.concatenate(ids).astype(self.dtype), np.concatenate(said), True)


def read_pair(row: Any) -> Pair:
    """Return the chats of a row: texts or lists of messages, with a prompt before both or without.

    Raises ValueError, which says why it has none.
    """
    if isinstance(row, dict) and any(side not in row for side in SIDES):
        raise ValueError(f"has {few(row) or 'nothing'}, and a pair has 'chosen' and 'rejected'")
    if not isinstance(row, dict):
        raise ValueError("is no object")
    before = as_messages(row.get("prompt") or [], "user")
    chosen, rejected = (
        as_chat([*before, *as_messages(row[side], "assistant")], row) for side in SIDES
    )
    return as_pair(chosen, rejected)


def as_pair(chosen: Chat, rejected: Chat) -> Pair:
    """Return two chats, of which what comes before they differ is a prompt: it weighs the same in both.

    Raises ValueError where they are the same.
    """
    if chosen.messages == rejected.messages:
        raise ValueError("has the same chosen and rejected, and prefers nothing")
    both = zip(chosen.messages, rejected.messages, strict=False)
    same = sum(1 for _ in takewhile(lambda two: two[0] == two[1], both))
    first = min(
        same, chosen.answers[-1], rejected.answers[-1]
    )  # one may go on where the other ends
    return chosen._replace(first=first), rejected._replace(first=first)


def pair_examples(
    settings: Any, encoder: ChatEncoder, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training pairs of `--data` and the held-out ones, one a row, as `read_examples`."""
    encoder.ends()
    maker = PairMaker(encoder, settings.sequence_length)
    return read_examples(_rows_of(settings), maker, vocabulary)


def pack_pairs(
    pairs: Iterable[Sequence[Messages]], settings: Any, encoder: ChatEncoder
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the same of pairs in memory. Raises UserError for one that is none."""
    encoder.ends()
    maker = PairMaker(encoder, settings.sequence_length)
    try:
        documents = [maker.join(as_pair(*map(Chat, pair))) for pair in pairs]
    except ValueError as error:
        raise UserError(f"examples() in pipeline.py: a pair {error}") from None
    return pack_examples(documents, maker, _rows_of(settings))


def _rows_of(settings: Any) -> Any:
    """Return settings whose rows have room for two chats, and one pair each."""
    return one_a_row(settings, 2 * settings.sequence_length)


def ask_pairs(texts: Iterable[str | Messages], encoder: ChatEncoder, length: int) -> list[Arrays]:
    """Return a row for each text, or chat, that is asked: in the place of the chosen one. Raises UserError."""
    rows = []
    for row in encoder.ask_each(texts, length):
        ids, said = (np.pad(x, (0, length)) for x in (row["input_ids"], row["mask"]))
        rows.append({"input_ids": ids, "said": said.astype(np.uint8)})
    return rows


def one_chat(text: str, encoder: ChatEncoder, length: int) -> Arrays:
    """Return a row of a chat alone, as JSON has it: in the place of the chosen one; of a pair, both.

    Raises UserError for what is none, or has more than `length` tokens.
    """
    try:
        value = parse_json(text)
        if isinstance(value, dict) and all(side in value for side in SIDES):
            document = PairMaker(encoder, length).join(read_pair(value))
            ids, said = document.ids, np.asarray(document.marks)
        else:
            chat = read_chat(value)
            ids, learned = encoder(chat._replace(first=chat.answers[-1]))
            said = 1 + learned.astype(np.uint8)
    except ValueError as error:
        why = "is no JSON" if isinstance(error, json.JSONDecodeError) else error
        example = '{"prompt": "Hi", "completion": "Hello."}'
        raise UserError(f"--prompt: {text[:40]!r}: {why}; give a chat, as {example}") from None
    if (said < 3).sum() > length:
        raise UserError(f"--prompt: {len(ids)} tokens, more than --sequence-length {length}")
    padding = (0, 2 * length - len(ids))
    return {"input_ids": np.pad(ids, padding), "said": np.pad(said, padding)}


def split_pair(row: Mapping[str, np.ndarray]) -> Arrays:
    """Return the two chats of a row of 2 S tokens: "input_ids", "mask" and "learned", each (2, S)."""
    length = len(row["input_ids"]) // 2
    ids_2S = np.zeros((2, length), np.int32)
    mask_2S, learned_2S = np.zeros((2, 2, length), bool)
    for side in range(2):
        own = (row["said"] + 1) // 2 == side + 1
        count = int(own.sum())
        ids_2S[side, :count], mask_2S[side, :count] = row["input_ids"][own], True
        learned_2S[side, :count] = row["said"][own] == 2 + 2 * side
    return {"input_ids": ids_2S, "mask": mask_2S, "learned": learned_2S}
