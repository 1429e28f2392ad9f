"""What `examples` of a pipeline returns, of pairs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.examples import Arrays
from ..text.examples import Mixture, read_examples
from ..text.framed import check_room
from ..text.in_memory import one_a_row, pack_examples
from .documents import PairMaker


def pair_examples(
    settings: Any,
    tokenizer: Any,
    vocabulary: int,
    pairs: Sequence[tuple[str, str]] = (),
) -> tuple[Mixture, Mixture]:
    """Return the training pairs of `--data` and the held-out ones, as `read_examples`: (source ids, target ids).

    pairs: of texts, in place of sources where none are named.
    """
    lengths = (settings.sequence_length, settings.target_length)
    names = (settings.source_field, settings.target_field)
    for flag, length in zip(("--sequence-length", "--target-length"), lengths, strict=True):
        check_room(tokenizer, length, flag)
    maker = PairMaker(tokenizer, settings.prefix, lengths, names)
    rows = one_a_row(settings, sum(lengths))
    if settings.data:
        train, held_out = read_examples(rows, maker, vocabulary)
    else:
        train, held_out = pack_examples(maker.encode(pairs), maker, rows)
    return train.map(_split), held_out.map(_split)


def _split(row: Arrays, _: int) -> tuple[np.ndarray, np.ndarray]:
    ids, target = row["input_ids"][row["mask"]], row["target"][row["mask"]]
    return ids[~target], ids[target]
