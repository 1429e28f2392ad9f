"""Texts with what a tokenizer adds to each, such as BERT's [CLS] and [SEP]."""

from typing import Any

from ...base.messages import UserError, print_once


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
