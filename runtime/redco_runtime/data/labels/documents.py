"""Rows with labels to documents: their tokens, some of them marked with the number of a label."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ...base.examples import Arrays
from ...base.messages import UserError, few
from ..text.prompts import pad_row
from ..text.documents import Maker, Tokens
from ..tokenizer import Encoder, make_encoder
from ..text.examples import Mixture, read_examples
from ..text.framed import check_room, first_tokens
from ..text.in_memory import one_a_row, pack_examples
from .counts import say_counts
from .reading import Fields, read_text, read_words

# Of a token: 1 + the number of its label, 0 where it has none, negative where another one of its word says it.
MARK = "label"
NAMED = 3  # of the cache: how a label becomes a number


@dataclass
class LabelMaker(Maker):
    """What Makers of labelled documents share. fields: as `Fields` says. length: S, of a row."""

    tokenizer: Any
    labels: Sequence[str]
    fields: Fields
    length: int
    noun: ClassVar[str] = "text"
    marks: ClassVar[Mapping[str, str]] = {MARK: "int16"}

    def __post_init__(self) -> None:
        if len({*self.labels}) != len(self.labels) or len(self.labels) < 2:
            raise UserError(
                f"--labels: {few(self.labels) or 'none'}: give two names at least, each once"
            )
        check_room(self.tokenizer, self.length)

    @cached_property
    def encoder(self) -> Encoder:
        """What makes ids of words."""
        return make_encoder(self.tokenizer)

    def key(self) -> list[object]:
        own = [type(self).__name__, NAMED, self.length, [*self.labels], [*self.fields]]
        return [*own, self.encoder.dump()]


@dataclass
class TextLabels(LabelMaker):
    """A Maker of texts, which are cut to `length` tokens; the first has the label."""

    def parse(self, row: Any) -> Tokens:
        """Return a row as a document. Raises ValueError, which says why it is none."""
        text, labels = read_text(row, self.fields, self.labels)
        if not len(self.encoder([text])[0]):
            raise ValueError(
                f"has {json.dumps(text)[:40]} in {self.fields[0]!r}, which gives no token"
            )
        ids = self.tokenizer(text, truncation=True, max_length=self.length)["input_ids"]
        marks = np.zeros(len(ids), np.int16)
        marks[0] = labels[0] + 1
        return Tokens(np.array(ids, self.dtype), marks, True)


@dataclass
class WordLabels(LabelMaker):
    """A Maker of words with a label each. A word that gives no token is the token of what is unknown.

    subword: "first": the first token of a word learns its label and says it, as in run_ner.py and the pipeline of
        transformers; "last": all of its tokens learn it, and the last one says it.
    """

    subword: str = "last"  # where the code of a project names none, which was made before it could

    def parse(self, row: Any) -> Tokens:
        """Return a row as a document. Raises ValueError, for too many tokens too."""
        words, labels = read_words(row, self.fields, self.labels)
        own = self.encoder
        # A space begins a word: a token of its own, where tokens are bytes, which keeps words apart.
        pairs = zip(words, own([f" {word}" for word in words]), strict=True)
        pieces = [ids if len(ids) else self._unknown(word) for word, ids in pairs]
        ids = np.concatenate([own.begin, *pieces, own.end]).astype(self.dtype)
        if len(ids) > self.length:
            raise ValueError(f"has {len(ids)} tokens, more than --sequence-length {self.length}")
        marks, at = np.zeros(len(ids), np.int16), len(own.begin)
        for piece, number in zip(pieces, labels, strict=True):
            end = at + len(piece)
            if self.subword == "first":
                marks[at] = number + 1
            else:
                marks[at:end] = -number - 1
                marks[end - 1] = number + 1
            at = end
        return Tokens(ids, marks, True)

    def _unknown(self, word: str) -> np.ndarray:
        """Return the token of what a tokenizer does not know. Raises ValueError where it has none."""
        if self.tokenizer.unk_token_id is None:
            raise ValueError(f"has the word {json.dumps(word)[:40]}, which gives no token")
        return np.array([self.tokenizer.unk_token_id])

    def key(self) -> list[object]:
        return [*super().key(), self.subword]


def labelled_examples(
    settings: Any, maker: LabelMaker, vocabulary: int, rows: Callable[[], Iterable[Any]]
) -> tuple[Mixture, Mixture]:
    """Return the training rows of `--data` and the held-out ones, as `read_examples`, with MARK of each token.

    rows: gives those to take in the place of files, where none are named. Raises UserError.
    """
    alone = one_a_row(settings, settings.sequence_length)
    if settings.data:
        train, held_out = read_examples(alone, maker, vocabulary)
        say_counts(train, held_out, maker.labels)
        return train, held_out
    try:
        documents = [maker.parse(row) for row in rows()]
    except ValueError as error:
        raise UserError(f"--data names none, and a row of pipeline.py {error}") from None
    return pack_examples(documents, maker, alone)


def row_to_label(maker: LabelMaker, row: Any) -> Arrays:
    """Return the row of a prompt, as of `labelled_examples`, whose labels mean nothing; say where it is cut.

    Raises UserError.
    """
    field, name = maker.fields[1], maker.labels[0] if maker.labels else ""
    value = [name] * len(row[field]) if isinstance(row[field], list) else name
    try:
        ids, marks, *_ = maker.parse({**row, field: value})
    except ValueError as error:
        raise UserError(f"--prompt: {error}") from None
    if isinstance(text := row[maker.fields[0]], str):
        first_tokens(maker.tokenizer, text, maker.length)
    assert marks is not None  # as those of both makers have them
    return pad_row(ids, maker.length) | {MARK: np.pad(marks, (0, maker.length - len(ids)))}
