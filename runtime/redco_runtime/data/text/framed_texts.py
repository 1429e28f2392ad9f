"""Rows of texts, each with what a tokenizer adds to it, for a pipeline that makes its examples of rows."""

from collections.abc import Iterable
from typing import Any

from ..tokenizer import make_encoder
from .examples import Mixture, read_examples
from .framed import check_room
from .text_examples import TextMaker, cut_texts


def packed_texts(
    settings: Any, tokenizer: Any, vocabulary: int, texts: Iterable[str] = ()
) -> tuple[Mixture, Mixture]:
    """Return what `text_examples` does, for a pipeline that makes its examples of rows: `Mixture.map` does. None are streamed."""
    check_room(tokenizer, settings.sequence_length)
    if not settings.data:
        return cut_texts(settings, tokenizer, texts, vocabulary, _frame(tokenizer))
    maker = TextMaker(make_encoder(tokenizer), settings.text_field)
    return read_examples(settings, maker, vocabulary)


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer adds before a text and after it."""
    (bare, *_), framed = (tokenizer("a", add_special_tokens=x)["input_ids"] for x in (False, True))
    start = framed.index(bare)
    return framed[:start], framed[start + 1 :]
