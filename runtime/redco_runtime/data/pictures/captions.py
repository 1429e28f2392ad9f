"""Captions as bytes of UTF-8: no file of a vocabulary, and every text has an encoding."""

import numpy as np

from ...base.messages import UserError

VOCAB = 256  # of ids: a byte each
END = 0  # ends a caption, and fills it up: no text has this byte


def encode_caption(text: str, length: int) -> np.ndarray:
    """Return the ids of a caption, END behind them: int32 (length,). Raises UserError if it is too long."""
    ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    if len(ids) >= length:
        raise UserError(
            f"a caption of {len(ids)} bytes, {text[:40]!r}, and the model has room for {length - 1}: "
            f"shorten it, or give --caption-length {len(ids) + 1}"
        )
    return np.pad(ids, (0, length - len(ids)), constant_values=END)


def decode_caption(ids: np.ndarray) -> str:
    """Return the text in front of the first END."""
    return bytes(ids.astype(np.uint8)).partition(bytes([END]))[0].decode(errors="replace")
