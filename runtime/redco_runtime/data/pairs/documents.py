"""Rows of files to pairs as documents: a source and its target end to end, marked which is which."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..text.documents import Bad, Tokens
from ..text.encoder import id_dtype, make_encoder
from ..text.formats import parse_rows
from ..text.parts import Part
from .reading import Names, read_pair

BATCH = 256  # pairs that are tokenized at once


@dataclass
class PairMaker:
    """A Maker of pairs.

    prefix: of each source. lengths: of a source and of a target at most, which are cut. names: as of `read_pair`.
    """

    tokenizer: Any
    prefix: str
    lengths: tuple[int, int]
    names: Names
    noun: ClassVar[str] = "pair"
    marks: ClassVar[Mapping[str, str]] = {"target": "bool"}
    shard: ClassVar[int] = 2**24  # some seconds, so that all cores have one

    @property
    def dtype(self) -> str:
        return id_dtype(self.tokenizer)

    @property
    def portable(self) -> bool:
        return bool(self.tokenizer.is_fast)

    def key(self) -> list[object]:
        """Return what decides the tokens."""
        return [make_encoder(self.tokenizer).dump(), self.prefix, self.lengths, self.names]

    def __call__(self, parts: Iterable[Part]) -> Iterator[Tokens | Bad]:
        """Yield the pairs of parts, and the rows that are none. Raises UserError."""
        batch: list[tuple[str, str]] = []
        for one in parse_rows(parts, lambda row: read_pair(row, self.names)):
            if isinstance(one, Bad):
                yield one
                continue
            batch.append(one)
            if len(batch) == BATCH:
                yield from self.encode(batch)
                batch = []
        if batch:
            yield from self.encode(batch)

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Tokens]:
        """Yield a document for each pair of texts."""
        sources, targets = zip(*pairs, strict=True)
        both = (
            self.tokenizer(texts, truncation=True, max_length=length)["input_ids"]
            for texts, length in zip(
                ([self.prefix + text for text in sources], [*targets]), self.lengths, strict=True
            )
        )
        for source, target in zip(*both, strict=True):
            ids = np.array([*source, *target], self.dtype)
            yield Tokens(ids, np.arange(len(ids)) >= len(source), True)
