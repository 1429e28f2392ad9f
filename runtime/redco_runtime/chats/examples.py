"""What `examples` of a pipeline returns, of chats."""

from collections.abc import Iterable, Sequence

from redco_runtime.chats.documents import ChatMaker
from redco_runtime.chats.encoding import ChatEncoder
from redco_runtime.chats.reading import Messages
from redco_runtime.contracts import Example
from redco_runtime.text.examples import StreamSettings, pack_examples, read_or_stream
from redco_runtime.text.sources import RowSettings


def chat_examples(
    settings: StreamSettings, encoder: ChatEncoder, vocabulary: int
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of the chats of `--data` and the held-out ones, as `read_or_stream`.

    A row has "learned" (S,) bool besides: which tokens the assistant says.
    """
    return read_or_stream(settings, ChatMaker(encoder, settings.sequence_length), vocabulary)


def pack_chats(
    chats: Sequence[Messages], settings: RowSettings, encoder: ChatEncoder
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the same of chats in memory. Raises ValueError for one that is none."""
    maker = ChatMaker(encoder, settings.sequence_length)
    return pack_examples(map(maker.encode, chats), maker, settings)
