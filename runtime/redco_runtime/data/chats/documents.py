"""Rows of files to chats as documents: their tokens, and which of them are learned."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..text.documents import Bad, Tokens
from ..text.formats import parse_rows
from ..text.parts import Part
from .encoding import ChatEncoder
from .reading import Chat, read_chat


@dataclass
class ChatMaker:
    """A Maker of chats.

    length: of a row, which a chat must not be longer than. split: whether each answer has a row of its own.
    """

    encoder: ChatEncoder
    length: int
    split: bool = False
    noun: ClassVar[str] = "chat"
    marks: ClassVar[Mapping[str, str]] = {"learned": "bool"}
    # A template is written several times a chat: smaller than those of texts, so that all cores have one.
    shard: ClassVar[int] = 2**23

    @property
    def dtype(self) -> str:
        return self.encoder.dtype

    @property
    def portable(self) -> bool:
        return self.encoder.portable

    def key(self) -> list[object]:
        """Return what decides the tokens, and which chats are too long."""
        return [self.encoder.key(), self.length, *(["split"] if self.split else [])]

    def __call__(self, parts: Iterable[Part]) -> Iterator[Tokens | Bad]:
        """Yield the chats of parts, and the rows that are none. Raises UserError."""
        for one in parse_rows(parts, lambda row: self.encode(read_chat(row))):
            yield from [one] if isinstance(one, Bad) else one

    def encode(self, chat: Chat) -> list[Tokens]:
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
