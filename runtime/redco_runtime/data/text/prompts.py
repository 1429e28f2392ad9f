"""Prompts: their rows, and those that are shown at each evaluation, which are named, or, of data of one's own, of its rows."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np

from ...base.messages import UserError, print_once
from ...base.examples import Arrays
from .sources import ask, parse_sources

SHOWN, LOOKED = 2, 20  # rows, and those that are looked at for them
WORDS = 8  # of a text, at most

Prompts = Callable[[Any, list[str]], Any]


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


def own_prompts(config: Any, prompt_of: Callable[[Any], str], prompts: Prompts) -> list[str]:
    """Return `--sample-prompts`, or, where they are those of config.py and `--data` is named, the shortest of its first rows.

    Of `--held-out-data` where there is some. prompt_of: a row -> its prompt; what it fails for is no prompt.
    prompts: of the pipeline, which refuses what does not fit.
    """
    data = config.data
    (default,) = (field.default for field in fields(data) if field.name == "sample_prompts")
    if not data.data or data.sample_prompts != default:
        return list(data.sample_prompts)
    in_order = sorted(_questions(data, prompt_of), key=len)
    fitting = (prompt for prompt in in_order if _fits(prompts, config, prompt))
    return [*islice(fitting, SHOWN)] or list(data.sample_prompts)


def _questions(data: Any, prompt_of: Callable[[Any], str]) -> Iterator[str]:
    sources = parse_sources("--data", data.held_out_data or data.data)
    rows = ask("rows", sources=sources, field=getattr(data, "text_field", ""))
    with closing(rows):
        for answer in islice(rows, LOOKED):
            with suppress(ValueError, TypeError, LookupError, AttributeError):
                yield prompt_of(answer["row"])


def _fits(prompts: Prompts, config: Any, prompt: str) -> bool:
    try:
        return bool(prompts(config, [prompt]))
    except UserError:
        return False


def first_words(text: str) -> str:
    """Return the first words of a text, half of it at most. Raises ValueError where it has too few."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("has no two words")
    return " ".join(words[: min(WORDS, len(words) // 2)])
