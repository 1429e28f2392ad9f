"""What is shown at each evaluation: the prompts that are named, or, of data of one's own, of its rows."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import fields
from itertools import islice
from typing import Any

from ...base.errors import UserError
from .request import ask
from .sources import parse_sources

SHOWN, LOOKED = 2, 20  # rows, and those that are looked at for them
WORDS = 8  # of a text, at most

Prompts = Callable[[Any, list[str]], Any]


def own_prompts(config: Any, prompt_of: Callable[[Any], str], prompts: Prompts) -> list[str]:
    """Return `--sample-prompts`, or, where they are those of config.py and `--data` is named, the shortest of its first rows.

    Of `--held-out-data` where there is some. prompt_of: a row -> its prompt; what it fails for is no prompt.
    prompts: of the pipeline, which refuses what does not fit.
    """
    data = config.data
    (default,) = (field.default for field in fields(data) if field.name == "sample_prompts")
    if not data.data or data.sample_prompts != default:
        return list(data.sample_prompts)
    in_order = sorted(_questions(data, prompt_of), key=len)
    fitting = (prompt for prompt in in_order if _fits(prompts, config, prompt))
    return [*islice(fitting, SHOWN)] or list(data.sample_prompts)


def _questions(data: Any, prompt_of: Callable[[Any], str]) -> Iterator[str]:
    sources = parse_sources("--data", data.held_out_data or data.data)
    rows = ask("rows", sources=sources, field=getattr(data, "text_field", ""))
    with closing(rows):
        for answer in islice(rows, LOOKED):
            with suppress(ValueError, TypeError, LookupError, AttributeError):
                yield prompt_of(answer["row"])


def _fits(prompts: Prompts, config: Any, prompt: str) -> bool:
    try:
        return bool(prompts(config, [prompt]))
    except UserError:
        return False


def first_words(text: str) -> str:
    """Return the first words of a text, half of it at most. Raises ValueError where it has too few."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("has no two words")
    return " ".join(words[: min(WORDS, len(words) // 2)])
