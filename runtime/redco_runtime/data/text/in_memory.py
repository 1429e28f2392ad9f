"""Examples of documents in memory: those that a project brings, before it is given sources."""

from collections.abc import Iterable
from typing import Any

from ..example_streams import check_share
from .documents import Maker, Shape, Tokens
from .mixture import Mixture
from .rows import rows_in_memory
from .tokens import pack


def pack_examples(
    documents: Iterable[Tokens], maker: Maker, settings: Any
) -> tuple[Mixture, Mixture]:
    """Return the training rows of documents and the held-out ones, as `read_examples`. Raises UserError."""
    check_share(settings.held_out)
    shape = Shape(settings.sequence_length, settings.packing, settings.held_out)
    train = rows_in_memory(*pack(documents, maker, shape))
    return Mixture([train]), Mixture([train.held_out()])
