"""Texts with what a tokenizer adds to each, such as BERT's [CLS] and [SEP]."""

from collections.abc import Iterable
from typing import Any

from ...base.errors import UserError
from ...base.output import print_once
from .blocks import cut_texts
from .encoder import make_encoder
from .examples import read_examples
from .mixture import Mixture
from .texts import TextMaker


def packed_texts(
    settings: Any, tokenizer: Any, vocabulary: int, texts: Iterable[str] = ()
) -> tuple[Mixture, Mixture]:
    """Return what `text_examples` does, for a pipeline that makes its examples of rows: `Mixture.map` does. None are streamed."""
    check_room(tokenizer, settings.sequence_length)
    if not settings.data:
        return cut_texts(settings, tokenizer, texts, vocabulary, _frame(tokenizer))
    maker = TextMaker(make_encoder(tokenizer), settings.text_field)
    return read_examples(settings, maker, vocabulary)


def check_room(tokenizer: Any, length: int, flag: str = "--sequence-length") -> None:
    """Raise UserError where `length` tokens, which the flag gives, leave none to a text beside what is added to it."""
    added = tokenizer.num_special_tokens_to_add()
    if length <= added:
        raise UserError(
            f"{flag}: {length} tokens, and the tokenizer adds {added} to each text: give {added + 1} at least"
        )


def first_tokens(tokenizer: Any, text: str, length: int) -> list[int]:
    """Return the ids of a prompt with their special tokens, cut to `length`; say so where there are more."""
    ids: list[int] = tokenizer(text)["input_ids"]
    if len(ids) <= length:
        return ids
    print_once(f"--prompt: its first {length} tokens are read, of {len(ids)}")
    cut: list[int] = tokenizer(text, truncation=True, max_length=length)["input_ids"]
    return cut


def _frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer adds before a text and after it."""
    (bare, *_), framed = (tokenizer("a", add_special_tokens=x)["input_ids"] for x in (False, True))
    start = framed.index(bare)
    return framed[:start], framed[start + 1 :]
