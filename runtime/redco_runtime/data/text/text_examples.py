"""Texts as rows of one length, for a pipeline: those of `--data`, or what a project learns from before it is given sources."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.examples import Example
from ...base.json_lines import read_text
from ..example_streams import count_held_out
from .blocks import pad_row
from .encoder import make_encoder
from .examples import read_or_stream
from .mixture import Mixture
from .sources import check_ids
from .texts import TextMaker


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
