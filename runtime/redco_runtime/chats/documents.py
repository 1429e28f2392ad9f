"""Rows of files to chats as documents: their tokens, and which of them are learned."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from redco_runtime.chats.encoding import ChatEncoder
from redco_runtime.chats.reading import Messages, first_learned, read_chat
from redco_runtime.text.documents import Bad, Tokens
from redco_runtime.text.formats import parse_rows
from redco_runtime.text.parts import Part


@dataclass
class ChatMaker:
    """A Maker of chats. length: of a row, which a chat must not be longer than."""

    encoder: ChatEncoder
    length: int
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
        return [self.encoder.key(), self.length]

    def __call__(self, parts: Iterable[Part]) -> Iterator[Tokens | Bad]:
        """Return the chats of parts, and the rows that are none. Raises UserError."""
        return parse_rows(parts, lambda row: self.encode(read_chat(row), first_learned(row)))

    def encode(self, messages: Messages, first: int = 0) -> Tokens:
        """Return a chat, learned from message `first` on, as a document. Raises ValueError for one that is none."""
        ids, learned = self.encoder(messages, first)
        if len(ids) > self.length:
            raise ValueError(f"has {len(ids)} tokens, more than --sequence-length {self.length}")
        return Tokens(ids.astype(self.dtype), learned, True)
