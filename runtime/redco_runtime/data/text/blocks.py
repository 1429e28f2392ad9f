"""Rows of one length, of ids in memory, such as those of a prompt."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.errors import UserError
from ...base.output import print_once


def rows_to_continue(tokenizer: Any, texts: Iterable[str], length: int) -> list[Arrays]:
    """Return a row for each text, cut on the left to `length` tokens. Raises UserError for an empty one."""
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    if not all(rows):
        raise UserError("--prompt: an empty prompt cannot be continued: give a word at least")
    return [cut_row(ids, length) for ids in rows]


def cut_row(ids: Any, length: int) -> Arrays:
    """Return what `pad_row` does of the last `length` ids, and say so where there are more. Raises UserError."""
    if length < 1:
        raise UserError(
            "--sequence-length: no place for a prompt beside its continuation: give more, or fewer "
            "--max-new-tokens to predict.py, which is NEW_TOKENS in pipeline.py"
        )
    if len(ids) > length:
        print_once(f"--prompt: its last {length} tokens are read, of {len(ids)}")
    return pad_row(ids[-length:], length)


def pad_row(ids: Any, length: int, filler: int = 0) -> Arrays:
    """Return {"input_ids": (S,) int32, padded on the right, "mask": (S,) bool}. Raises UserError.

    ids: of a prompt. length: S.
    """
    if len(ids) > length:
        raise UserError(f"--prompt: {len(ids)} tokens, and the model takes {length}: shorten it")
    padded = np.pad(np.asarray(ids, np.int32), (0, length - len(ids)), constant_values=filler)
    return {"input_ids": padded, "mask": np.arange(length) < len(ids)}
