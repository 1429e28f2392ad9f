"""The process that reads data: a pipe brings tasks, and takes what they yield."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ...base.errors import UserError
from ..text.documents import Maker
from ..text.sources import Source
from ..text.texts import Text
from .build import Answers, build
from .formats import format_of, parse_rows, parts_of
from .reading import read_text
from .shard import Job, make_shard
from .tables import fingerprint_of
from .windows import windows


def main() -> None:
    """Make what is asked for, one task after the other, until nobody asks, or reads the answers."""
    with suppress(EOFError, ConnectionError), Connection(int(sys.argv[1])) as pipe:
        maker = pipe.recv()
        while True:
            task, facts = pipe.recv()
            try:
                for answer in TASKS[task](maker, **facts):
                    pipe.send(answer)
                pipe.send(None)
            except UserError as error:
                pipe.send(error)


def shard(maker: Maker, job: Job) -> Answers:
    """Make a shard, and yield its Contents."""
    yield {"contents": make_shard(job, maker)}


def rows(_: Any, sources: list[Source], field: str) -> Answers:
    """Yield the rows of sources, of plain values; a text of a file is one, with that field."""
    for part in (part for source in sources for part in parts_of(source)):
        some: Iterator[Any]
        if format_of(part.file) == "text":
            some = ({field: x.text} for x in read_text(part) if isinstance(x, Text))
        else:
            some = parse_rows([part], dict)
        for row in some:
            if isinstance(row, dict):
                yield {"row": json.loads(json.dumps(row, default=str))}


def fingerprint(_: Any, name: str) -> Answers:
    """Yield what datasets calls the content of a data set."""
    yield {"fingerprint": fingerprint_of(name)}


TASKS: dict[str, Callable[..., Answers]] = {
    "build": build,
    "shard": shard,
    "windows": windows,
    "rows": rows,
    "fingerprint": fingerprint,
}


if __name__ == "__main__":
    main()
