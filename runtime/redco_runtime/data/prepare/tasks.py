"""What a process that reads data is asked for: a task, which yields answers."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from ..text.documents import Maker, Part
from ..text.sources import Source
from ..text.texts import Text
from .build import Answers, build
from .formats import format_of, parse_rows, parts_of
from .reading import read_text
from .shard import Job, make_shard
from .tables import fingerprint_of
from .windows import windows


def answers(task: str, maker: Maker | None, line: str = "", **facts: Any) -> Answers:
    """Return the answers of a task. Raises UserError.

    line: the maker as JSON, of which other processes make theirs; "" where it is of this process alone.
    """
    return TASKS[task](maker, line, **facts)


def shard(maker: Maker, _: str, parts: list[list[Any]], **facts: Any) -> Answers:
    """Make a shard, and yield its Contents."""
    yield asdict(make_shard(Job(parts=[Part(*part) for part in parts], **facts), maker))


def rows(_: Any, __: str, sources: list[dict[str, Any]], field: str) -> Answers:
    """Yield the rows of sources; a text of a file is one, with that field."""
    for source in sources:
        for part in parts_of(Source(**source)):
            some: Iterator[Any]
            if format_of(part.file) == "text":
                some = ({field: x.text} for x in read_text(part) if isinstance(x, Text))
            else:
                some = parse_rows([part], dict)
            yield from ({"row": row} for row in some if isinstance(row, dict))


def fingerprint(_: Any, __: str, name: str) -> Answers:
    """Yield what datasets calls the content of a data set."""
    yield {"fingerprint": fingerprint_of(name)}


TASKS: dict[str, Callable[..., Answers]] = {
    "build": build,
    "shard": shard,
    "windows": windows,
    "rows": rows,
    "fingerprint": fingerprint,
}
