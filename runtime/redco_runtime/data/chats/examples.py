"""What `examples` of a pipeline returns, of chats."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...base.examples import Arrays, Example
from ...base.messages import UserError
from ..text.examples import read_or_stream
from ..text.in_memory import pack_examples
from .documents import ChatMaker
from .encoding import ChatEncoder
from .reading import Chat, Messages


def chat_examples(
    settings: Any, encoder: ChatEncoder, vocabulary: int
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of the chats of `--data` and the held-out ones, as `read_or_stream`.

    A row has "learned" (S,) bool besides: which tokens the assistant says.
    """
    encoder.ends()
    split = getattr(settings, "split_turns", False)  # which an older config.py lacks
    maker = ChatMaker(encoder, settings.sequence_length, split)
    return read_or_stream(settings, maker, vocabulary)


def pack_chats(
    chats: Sequence[Messages], settings: Any, encoder: ChatEncoder
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the same of chats in memory. Raises UserError for one that is none."""
    encoder.ends()
    maker = ChatMaker(encoder, settings.sequence_length)
    try:
        documents = [one for chat in chats for one in maker.rows(Chat(chat))]
    except ValueError as error:
        raise UserError(f"examples() in pipeline.py: a chat {error}") from None
    return pack_examples(documents, maker, settings)


def split_answer(row: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return (ids of a question of a row, ids of its answer): the first that is learned, and its chat before it."""
    numbers = row["segments"] if "segments" in row else row["mask"]
    start = int(row["learned"].argmax())
    chat = numbers == numbers[start]
    stop = start + int(np.append(~(row["learned"] & chat)[start:], True).argmax())
    return row["input_ids"][int(chat.argmax()) : max(start, 1)], row["input_ids"][start:stop]
