"""Chats of which people say that the answer is good, or that it is not: what KTO learns from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base.messages import UserError
from ...base.examples import Arrays, Example
from ..text.documents import Tokens
from ..text.examples import read_examples
from ..text.in_memory import one_a_row, pack_examples
from .documents import ChatMaker
from .encoding import ChatEncoder
from .pairs import SIDES, read_pair
from .reading import Chat, Messages, read_chat

Opinion = tuple[Chat, bool]


@dataclass
class OpinionMaker(ChatMaker):
    """A Maker of chats with a label.

    "said" of a token: 1 in a good chat and 3 in one that is not, and 1 more where the assistant says it.
    """

    noun: ClassVar[str] = "labelled chat"
    marks: ClassVar[Mapping[str, str]] = {"said": "uint8"}

    def key(self) -> list[object]:
        return [self.noun, *super().key()]

    def parse(self, row: Any) -> list[Tokens]:
        documents = [self.join(opinion) for opinion in read_opinions(row)]
        return [one._replace(again=number > 0) for number, one in enumerate(documents)]

    def join(self, opinion: Opinion) -> Tokens:
        """Return a chat as a document. Raises ValueError for one that is none."""
        chat, good = opinion
        (document,) = self.rows(chat)
        said = (1 if good else 3) + np.asarray(document.marks).astype(np.uint8)
        return Tokens(document.ids, said, True)


def read_opinions(row: Any) -> list[Opinion]:
    """Return the chats of a row with their labels: a chat and its "label", or both of a pair. Raises ValueError."""
    if isinstance(row, dict) and any(side in row for side in SIDES):
        return [*zip(read_pair(row), (True, False), strict=True)]
    chat = read_chat(row)
    if row.get("label") not in (True, False):
        raise ValueError("has no 'label' that is true or false")
    return [(chat, bool(row["label"]))]


def opinion_examples(
    settings: Any, encoder: ChatEncoder, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training chats of `--data` and the held-out ones, one a row, as `read_examples`."""
    encoder.ends()
    maker = OpinionMaker(encoder, settings.sequence_length)
    return read_examples(one_a_row(settings, settings.sequence_length), maker, vocabulary)


def pack_opinions(
    opinions: Iterable[tuple[Messages, bool]], settings: Any, encoder: ChatEncoder
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the same of chats in memory. Raises UserError for one that is none."""
    encoder.ends()
    maker = OpinionMaker(encoder, settings.sequence_length)
    try:
        documents = [maker.join((Chat(messages), good)) for messages, good in opinions]
    except ValueError as error:
        raise UserError(f"examples() in pipeline.py: a chat {error}") from None
    return pack_examples(documents, maker, one_a_row(settings, settings.sequence_length))


def read_said(row: Mapping[str, np.ndarray]) -> Arrays:
    """Return a row as "input_ids", "mask" and "learned", each (S,), and "good" ()."""
    said = row["said"]
    return {
        "input_ids": row["input_ids"],
        "mask": said > 0,
        "learned": (said == 2) | (said == 4),
        "good": said.max() < 3,
    }


def ask_opinions(
    texts: Iterable[str | Messages], encoder: ChatEncoder, length: int
) -> list[Arrays]:
    """Return a row for each text, or chat, that is asked. Raises UserError."""
    rows = encoder.ask_each(texts, length)
    return [{"input_ids": x["input_ids"], "said": x["mask"].astype(np.uint8)} for x in rows]
