"""Documents as tokens: what shards and streams are made of, whatever their rows have."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from .parts import Part


class Tokens(NamedTuple):
    """A document, or a part of a long one.

    ids: (N,).
    marks: (N,) of each token, where its kind has any.
    ends: whether it ends there, None where it goes on. It is not ended, but cut, where a part of a file ends.
    again: whether it is of the same row of a file as the one before.
    empty: whether it is a row that gives no token, and so no document.
    """

    ids: np.ndarray
    marks: np.ndarray | None
    ends: bool | None
    again: bool = False
    empty: bool = False


class Bad(NamedTuple):
    """A row that is no document: its part of a file, its place there, and why. `describe` says it."""

    part: Part
    at: int
    why: str


class Maker(Protocol):
    """What makes documents of parts of files. Another process gets it by `portable`, and imports no JAX.

    noun: what a document is called.
    marks: what a row calls the marks of its tokens -> their dtype; none where they have none.
    shard: bytes of a shard, the unit that one process makes.
    dtype: of ids.
    portable: whether another process can have it.
    key: what decides the documents, beside the files.
    """

    noun: ClassVar[str]
    marks: ClassVar[Mapping[str, str]]
    shard: ClassVar[int]

    @property
    def dtype(self) -> str: ...
    @property
    def portable(self) -> bool: ...
    def key(self) -> list[object]: ...
    def __call__(self, parts: Iterable[Part], /) -> Iterator[Tokens | Bad]: ...
