"""What `examples` of a pipeline returns, of the chats that `--data` names."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from redco_runtime.chats.encoding import ChatEncoder
from redco_runtime.chats.reading import Messages, read_chats
from redco_runtime.contracts import Arrays, Example
from redco_runtime.errors import UserError
from redco_runtime.order import permute
from redco_runtime.progress import PROGRESS
from redco_runtime.text.formats import Bad
from redco_runtime.text.mixture import Mixture
from redco_runtime.text.packing import best_fit, one_a_row
from redco_runtime.text.sources import (
    RowSettings,
    Source,
    announce,
    check_bad,
    check_ids,
    parse_sources,
)

Encoded = tuple[np.ndarray, np.ndarray]  # ids (N,) int32 of a chat; which are learned (N,) bool


class ChatRows(Sequence[Arrays]):
    """Chats in rows of S tokens: packed, or one in each.

    A row has "input_ids" (S,) int32, "learned" (S,) bool, and, where chats are packed, "segments" (S,)
    int32: the chat of its row that a token is of, from 1; 0 is padding. Else it has "mask" (S,) bool.
    """

    def __init__(self, chats: Sequence[Encoded], length: int, packed: bool) -> None:
        self._chats, self._length, self._packed = chats, length, packed
        lengths = np.array([len(ids) for ids, _ in chats], np.int64)
        order, ends = best_fit(lengths, length) if packed else one_a_row(lengths)
        self._rows = np.split(order, ends[:-1]) if len(ends) else []
        self.tokens = int(lengths.sum())
        self.learned = sum(int(learned.sum()) for _, learned in chats)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        """Return a row."""
        ids_S, segments_S = np.zeros((2, self._length), np.int32)
        learned_S = np.zeros(self._length, bool)
        at = 0
        for segment, number in enumerate(self._rows[index], 1):
            ids, learned = self._chats[number]
            there = slice(at, at := at + len(ids))
            ids_S[there], learned_S[there], segments_S[there] = ids, learned, segment
        own = {"segments": segments_S} if self._packed else {"mask": segments_S > 0}
        return {"input_ids": ids_S, "learned": learned_S, **own}


def chat_examples(
    settings: RowSettings, encoder: ChatEncoder, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training rows of `--data`, and the held-out ones. Raises UserError, with files and lines."""
    share = 0.0 if settings.held_out_data else settings.held_out
    sources = parse_sources("--data", settings.data)
    both = [_read(source, settings, encoder, vocabulary, share) for source in sources]
    held_out = [rows for _, rows in both]
    if settings.held_out_data:
        others = parse_sources("--held-out-data", settings.held_out_data)
        held_out = [_read(source, settings, encoder, vocabulary, 0.0)[0] for source in others]
    weights = [source.weight for source in sources]
    return Mixture([rows for rows, _ in both], weights), Mixture(held_out)


def pack_chats(
    chats: Sequence[Messages], settings: RowSettings, encoder: ChatEncoder
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training rows of chats, and the held-out ones. Raises ValueError for one that is none."""
    encoded = [encoder(chat) for chat in chats]
    train, held_out = _split(encoded, settings, settings.held_out)
    return Mixture([train]), Mixture([held_out])


def _read(
    source: Source, settings: RowSettings, encoder: ChatEncoder, vocabulary: int, share: float
) -> tuple[ChatRows, ChatRows]:
    chats, bad = list[Encoded](), list[str]()
    for item in read_chats(source):
        if len(chats) % 1000 == 0:
            PROGRESS.at("the tokens of its data")
        chat = item if isinstance(item, Bad) else _encode(*item, encoder, settings.sequence_length)
        if isinstance(chat, Bad):
            bad.append(f"{chat.where} {chat.why}")
            check_bad(source, bad, settings.skip_bad_rows)
        else:
            check_ids(source.name, int(chat[0].max(initial=0)), vocabulary)
            chats.append(chat)
    if not chats:
        raise UserError(f"{source.flag}: {source.name} has no chat: give one that has")
    train, held_out = _split(chats, settings, share)
    rows = len(train) + len(held_out)
    tokens = train.tokens + held_out.tokens
    padding = 1 - tokens / (rows * settings.sequence_length)
    announce(
        f"data: {source.name}: {len(chats):,} chats of {tokens:,} tokens, {train.learned + held_out.learned:,} "
        f"of them learned, in {rows:,} rows of {settings.sequence_length}, {len(held_out):,} of them held "
        f"out, {padding:.1%} of them padding" + (f"; {len(bad)} bad rows left out" if bad else "")
    )
    return train, held_out


def _encode(where: str, messages: Messages, encoder: ChatEncoder, most: int) -> Encoded | Bad:
    """Return the tokens of a chat, at most so many, and which are learned."""
    try:
        ids, learned = encoder(messages)
    except ValueError as error:
        return Bad(where, str(error))
    if len(ids) > most:
        return Bad(where, f"has {len(ids)} tokens, more than --sequence-length {most}")
    return ids, learned


def _split(
    chats: Sequence[Encoded], settings: RowSettings, share: float
) -> tuple[ChatRows, ChatRows]:
    """Return the rows to train on of encoded chats, and those of a share of the chats."""
    count = len(chats)
    held_out = max(1, round(share * count)) if share and count > 1 else 0
    chosen = permute(np.arange(count), count, 0, 0, 0) < held_out
    packed = settings.packing == "on"
    sides = ([chats[i] for i in np.flatnonzero(chosen == side).tolist()] for side in (False, True))
    train, others = (ChatRows(side, settings.sequence_length, packed) for side in sides)
    return train, others
