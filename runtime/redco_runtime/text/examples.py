"""What `examples` of a pipeline returns, of the sources that `--data` names."""

from collections.abc import Sequence
from typing import Any, Protocol

from redco_runtime.contracts import Example
from redco_runtime.errors import UserError
from redco_runtime.text.build import Builder
from redco_runtime.text.documents import Maker
from redco_runtime.text.encoder import make_encoder
from redco_runtime.text.mixture import Mixture
from redco_runtime.text.rows import Rows, open_rows
from redco_runtime.text.sources import RowSettings, Source, announce, parse_sources
from redco_runtime.text.texts import TextMaker


class TextSettings(RowSettings, Protocol):
    """What the section `data` has besides, where it is of texts."""

    @property
    def text_field(self) -> str: ...


def text_examples(
    settings: TextSettings, tokenizer: Any, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training rows of the texts of `--data` and the held-out ones, as `read_examples`.

    Where each has a row of its own it has no "segments": code that knows none fails, and learns nothing
    across texts.
    """
    maker = TextMaker(make_encoder(tokenizer), settings.text_field)
    return read_examples(settings, maker, vocabulary)


def read_examples(
    settings: RowSettings, maker: Maker, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training rows of `--data` and the held-out ones, tokenized now if they never were.

    Rows are as of `Rows`. Raises UserError, which names files and lines.
    maker: of documents. vocabulary: ids that the model has.
    """
    if not 0 <= settings.held_out < 1:
        raise UserError(f"--held-out: {settings.held_out} is no share: give one from 0 to below 1")

    def read(sources: Sequence[Source], share: float) -> list[Rows]:
        builder = Builder(settings, maker, vocabulary, share)
        parts = [open_rows(builder.build(source)) for source in sources]
        for source, rows in zip(sources, parts, strict=True):
            announce(f"data: {source.name}: {rows}")
        return parts

    sources = parse_sources("--data", settings.data)
    train = read(sources, 0.0 if settings.held_out_data else settings.held_out)
    if settings.held_out_data:
        held_out = read(parse_sources("--held-out-data", settings.held_out_data), 0.0)
    else:
        held_out = [rows.held_out() for rows in train]
    return Mixture(train, [source.weight for source in sources]), Mixture(held_out)
