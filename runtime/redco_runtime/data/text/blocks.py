"""Rows of one length, of texts in memory: what a project learns from before it is given sources."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ...base.errors import UserError
from ...base.json_lines import read_text
from ...base.output import print_once
from ..example_streams import count_held_out
from .mixture import Mixture
from .sources import check_ids


def cut_texts(
    settings: Any,
    tokenizer: Any,
    texts: Iterable[str],
    vocabulary: int,
    frame: tuple[list[int], list[int]] = ([], []),
) -> tuple[Mixture, Mixture]:
    """Return rows of S tokens of `--text-files`, or of `texts` where there are none; the last are held out.

    A row is as of `pad_row`. vocabulary: ids that the model has. frame: those before and after each row. Raises UserError for a file that cannot be read, a text of less
    than two rows, and an id that the model has not.
    """
    before, after = frame
    length = settings.sequence_length - len(before) - len(after)
    text = "\n".join(_read_files(settings.text_files) or texts)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    check_ids("the text", max([*before, *ids, *after], default=0), vocabulary)
    if not settings.text_files:  # the texts that a project brings are short: they come again
        ids *= -(-2 * length // len(ids))
    blocks = [ids[at : at + length] for at in range(0, len(ids) - length + 1, length)]
    if len(blocks) < 2:
        raise UserError(f"the text has {len(ids)} tokens: give two blocks of {length} at least")
    rows = [pad_row([*before, *ids, *after], settings.sequence_length) for ids in blocks]
    held_out = count_held_out(len(rows), settings.held_out)
    return Mixture([rows[:-held_out]]), Mixture([rows[-held_out:]])


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


def _read_files(names: Iterable[str]) -> list[str]:
    texts = []
    for name in names:
        try:
            texts.append(read_text(Path(name)))
        except (OSError, ValueError) as error:
            raise UserError(f"--text-files: cannot read {name}: {error}") from None
    return texts
