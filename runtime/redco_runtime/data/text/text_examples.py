"""Texts as rows of one length, for a pipeline: those of `--data`, or what a project learns from before it is given sources."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...base.messages import UserError, few
from ...base.examples import Example
from ...base.files import read_text
from ..example_streams import count_held_out
from .prompts import pad_row
from .documents import Bad, Maker, Text, Tokens
from ..tokenizer import Encoder, make_encoder
from .examples import Mixture, read_or_stream
from .sources import check_ids


def text_examples(
    settings: Any, tokenizer: Any, vocabulary: int, texts: Iterable[str] = ()
) -> tuple[Iterable[Example], Sequence[Example]]:
    """Return the training rows of the texts of `--data` and the held-out ones, as `read_or_stream`.

    Where each has a row of its own it has no "segments": code that knows none fails, and learns nothing
    across texts. texts: in place of sources where none are named, as of `cut_texts`.
    """
    if not settings.data:
        return cut_texts(settings, tokenizer, texts, vocabulary)
    maker = TextMaker(make_encoder(tokenizer), settings.text_field)
    return read_or_stream(settings, maker, vocabulary)


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


def _read_files(names: Iterable[str]) -> list[str]:
    texts = []
    for name in names:
        try:
            texts.append(read_text(Path(name)))
        except (OSError, ValueError) as error:
            raise UserError(f"--text-files: cannot read {name}: {error}") from None
    return texts


@dataclass
class TextMaker(Maker):
    """A Maker of texts. field: of a row, that has the text."""

    encoder: Encoder
    field: str
    noun: ClassVar[str] = "text"
    # A thousand shards are 64 GB, and what a killed build makes again is seconds.
    shard: ClassVar[int] = 2**26
    batch: ClassVar[int] = 2**20  # characters: what a process holds is some times that

    @property
    def dtype(self) -> str:
        return self.encoder.dtype

    @property
    def portable(self) -> bool:
        return self.encoder.python is None

    def key(self) -> list[object]:
        return [self.field, self.encoder.dump()]

    def parse(self, row: Any) -> Text:
        if not isinstance(row, dict):
            raise ValueError(f"is {_name(row)}, and not an object with {self.field!r}")
        if self.field not in row:
            there = few(row) or "nothing"
            raise ValueError(f"has no {self.field!r}, but {there}: --text-field names another")
        if not isinstance(row[self.field], str):
            raise ValueError(f"has {_name(row[self.field])} in {self.field!r}, and no text")
        return Text(row[self.field], True)

    def size(self, row: Text) -> int:
        return len(row.text)

    def documents(self, batches: Iterable[list[Text] | Bad]) -> Iterator[Tokens | Bad]:
        """Yield the documents, a long one in parts, and the rows that are none."""
        begin, end = (np.array(ids, self.dtype) for ids in (self.encoder.begin, self.encoder.end))
        going = False  # whether a document has begun
        for batch in batches:
            if isinstance(batch, Bad):
                yield batch
                continue
            for ids, text in zip(self.encoder([x.text for x in batch]), batch, strict=True):
                if len(ids) and not going:
                    yield Tokens(begin, None, None)
                    going = True
                empty = text.ends is not None and not going
                yield Tokens(ids, None, None, empty=empty)
                if text.ends is not None and going:
                    yield Tokens(end[: len(end) * text.ends], None, text.ends)
                    going = False


def _name(value: Any) -> str:
    names = {"dict": "an object", "list": "a list", "str": "a text", "NoneType": "null"}
    return names.get(type(value).__name__, f"the value {value!r}")
