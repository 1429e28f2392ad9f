"""Examples of documents in memory: those that a project brings, before it is given sources."""

import io
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..example_streams import check_share
from .documents import Contents, Maker, Shape, Tokens, index_of, write_documents
from .examples import Mixture
from .packing import lay_out
from .rows import Rows, Shard


def one_a_row(settings: Any, length: int) -> Any:
    """Return the section `data` as that of rows of `length` tokens that have a document each."""
    return SimpleNamespace(**vars(settings) | {"sequence_length": length, "packing": "off"})


def pack_examples(
    documents: Iterable[Tokens], maker: Maker, settings: Any
) -> tuple[Mixture, Mixture]:
    """Return the training rows of documents and the held-out ones, as `read_examples`. Raises UserError."""
    check_share(settings.held_out)
    shape = Shape(settings.sequence_length, settings.packing, settings.held_out)
    train = rows_in_memory(*pack(documents, maker, shape))
    return Mixture([train]), Mixture([train.held_out()])


def pack(
    documents: Iterable[Tokens], maker: Maker, shape: Shape, number: int = 0
) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """Return the rows of documents, as `rows_in_memory` takes them: (index, arrays).

    number: of a shard, as of `hold_out`.
    """
    contents, tokens, marks = Contents(), io.BytesIO(), io.BytesIO()
    lengths = np.array([*write_documents(documents, contents, tokens, marks)], np.int64)
    layout = lay_out(lengths, shape, number)
    contents.rows, contents.held_out = layout.train, layout.held_out
    arrays = {
        "tokens": np.frombuffer(tokens.getbuffer(), maker.dtype),
        "pieces": layout.pieces,
        "rows": layout.rows,
    }
    named = {name: np.frombuffer(marks.getbuffer(), kind) for name, kind in maker.marks.items()}
    return index_of([contents], maker, shape), arrays | named


def rows_in_memory(index: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Rows:
    """Return the rows to train on of what `pack` gives."""
    marks = dict(arrays)
    shard = Shard(marks.pop("tokens"), marks.pop("pieces"), marks.pop("rows"), marks)
    return Rows(index, lambda _: shard)
