"""Rows of files to chats as documents: their tokens, and which of them are learned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from ..text.documents import Maker, Tokens
from .encoding import ChatEncoder
from .reading import Chat, read_chat


@dataclass
class ChatMaker(Maker):
    """A Maker of chats."""

    encoder: ChatEncoder
    length: int  # of a row, which a chat must not be longer than
    split: bool = False  # whether each answer has a row of its own
    noun: ClassVar[str] = "chat"
    marks: ClassVar[Mapping[str, str]] = {"learned": "bool"}
    # A template is written several times a chat: smaller than those of texts, so that all cores have one.
    shard: ClassVar[int] = 2**23

    def __post_init__(self) -> None:
        self.tokenizer = self.encoder.tokenizer

    def key(self) -> list[object]:
        return [self.encoder.key(), self.length, *(["split"] if self.split else [])]

    def parse(self, row: Any) -> list[Tokens]:
        return self.rows(read_chat(row))

    def encode(self, rows: Iterable[list[Tokens]]) -> Iterable[Tokens]:
        return chain.from_iterable(rows)

    def rows(self, chat: Chat) -> list[Tokens]:
        """Return a chat as documents, as of `ChatEncoder.rows`. Raises ValueError for one that is none."""
        documents = []
        for number, (ids, learned) in enumerate(self.encoder.rows(chat, self.split)):
            if len(ids) > self.length:
                raise ValueError(
                    f"has {len(ids)} tokens, more than --sequence-length {self.length}"
                )
            if not learned[1:].any():
                raise ValueError("has no token of an answer behind another, so nothing to learn")
            documents.append(Tokens(ids.astype(self.dtype), learned, True, number > 0))
        return documents
