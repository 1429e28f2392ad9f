"""What `examples` of a pipeline returns, of the sources that `--data` names."""

from collections.abc import Sequence
from typing import Any, Protocol

from redco_runtime.contracts import Example
from redco_runtime.errors import UserError
from redco_runtime.text.build import Builder
from redco_runtime.text.mixture import Mixture
from redco_runtime.text.rows import Rows
from redco_runtime.text.sources import RowSettings, Source, announce, parse_sources


class TextSettings(RowSettings, Protocol):
    """What the section `data` has besides, where it is of texts."""

    @property
    def text_field(self) -> str: ...
    @property
    def token_folder(self) -> str: ...


def text_examples(
    settings: TextSettings, tokenizer: Any, vocabulary: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return the training rows of `--data` and the held-out ones, tokenized now if they never were.

    A row has "input_ids" (S,) int32 and, where texts are packed, "segments" (S,) int32: the text of its
    row that a token is of, from 1; 0 is padding. Where each has a row of its own it has "mask" (S,) bool
    instead: code that knows no segments fails, and learns nothing across texts. Raises UserError, which
    names files and lines.
    """
    if not 0 <= settings.held_out < 1:
        raise UserError(f"--held-out: {settings.held_out} is no share: give one from 0 to below 1")

    def builder(share: float) -> Builder:
        return Builder(settings, tokenizer, vocabulary, share)

    share = 0.0 if settings.held_out_data else settings.held_out
    sources = parse_sources("--data", settings.data)
    train = _read(sources, builder(share))
    if settings.held_out_data:
        others = parse_sources("--held-out-data", settings.held_out_data)
        held_out = _read(others, builder(0.0))
    else:
        held_out = [Rows(rows.folder, held_out=True) for rows in train]
    return Mixture(train, [source.weight for source in sources]), Mixture(held_out)


def _read(sources: Sequence[Source], builder: Builder) -> list[Rows]:
    """Return the rows of each source, less the share that is held out."""
    parts = [Rows(builder.build(source)) for source in sources]
    for source, rows in zip(sources, parts, strict=True):
        announce(f"data: {source.name}: {rows}")
    return parts
