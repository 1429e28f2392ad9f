"""What is shown at each evaluation: the prompts that are named, or, of data of one's own, of its rows."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from itertools import islice
from typing import Any

from ...base.errors import UserError
from .documents import Bad
from .formats import format_of, parse_rows
from .sources import parse_sources
from .reading import read_text

SHOWN, LOOKED = 2, 20  # rows, and those that are looked at for them
WORDS = 8  # of a text, at most

Prompts = Callable[[Any, list[str]], Any]


def own_prompts(config: Any, ask: Callable[[Any], str], prompts: Prompts) -> list[str]:
    """Return `--sample-prompts`, or, where they are those of config.py and `--data` is named, the shortest of its first rows.

    Of `--held-out-data` where there is some. ask: a row -> its prompt; what it fails for is no prompt.
    prompts: of the pipeline, which refuses what does not fit.
    """
    data = config.data
    (default,) = (field.default for field in fields(data) if field.name == "sample_prompts")
    if not data.data or data.sample_prompts != default:
        return list(data.sample_prompts)
    in_order = sorted(_questions(data, ask), key=len)
    fitting = (prompt for prompt in in_order if _fits(prompts, config, prompt))
    return [*islice(fitting, SHOWN)] or list(data.sample_prompts)


def _questions(data: Any, ask: Callable[[Any], str]) -> Iterator[str]:
    for row in islice(_rows(data), LOOKED):
        with suppress(ValueError, TypeError, LookupError, AttributeError):
            yield ask(row)


def _fits(prompts: Prompts, config: Any, prompt: str) -> bool:
    try:
        return bool(prompts(config, [prompt]))
    except UserError:
        return False


def _rows(data: Any) -> Iterator[Any]:
    for source in parse_sources("--data", data.held_out_data or data.data):
        for part in source.parts():
            if format_of(part.file) == "text":
                texts = read_text(part)
                rows = ({data.text_field: x.text} for x in texts if not isinstance(x, Bad))
            else:
                rows = (row for row in parse_rows([part], dict) if not isinstance(row, Bad))
            yield from rows


def first_words(text: str) -> str:
    """Return the first words of a text, half of it at most. Raises ValueError where it has too few."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("has no two words")
    return " ".join(words[: min(WORDS, len(words) // 2)])
