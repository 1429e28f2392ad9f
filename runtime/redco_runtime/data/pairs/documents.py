"""Rows of files to pairs as documents: a source and its target end to end, marked which is which."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..text.documents import Maker, Tokens
from ..tokenizer import make_encoder
from .reading import Names, read_pair


@dataclass
class PairMaker(Maker):
    """A Maker of pairs."""

    tokenizer: Any
    prefix: str  # of each source
    lengths: tuple[int, int]  # of a source and of a target at most, which are cut
    names: Names  # as of `read_pair`
    noun: ClassVar[str] = "pair"
    marks: ClassVar[Mapping[str, str]] = {"target": "bool"}
    batch: ClassVar[int] = 256

    def key(self) -> list[object]:
        return [make_encoder(self.tokenizer).dump(), self.prefix, self.lengths, self.names]

    def parse(self, row: Any) -> tuple[str, str]:
        return read_pair(row, self.names)

    def encode(self, rows: Iterable[tuple[str, str]]) -> Iterator[Tokens]:
        sources, targets = zip(*rows, strict=True)
        both = (
            self.tokenizer(texts, truncation=True, max_length=length)["input_ids"]
            for texts, length in zip(
                ([self.prefix + text for text in sources], [*targets]), self.lengths, strict=True
            )
        )
        for source, target in zip(*both, strict=True):
            ids = np.array([*source, *target], self.dtype)
            yield Tokens(ids, np.arange(len(ids)) >= len(source), True)
