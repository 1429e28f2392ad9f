"""The process that reads data: a pipe brings tasks, and takes what they yield."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from ...base.messages import UserError, feature
from ..text.documents import Maker, Text
from ..text.sources import Source
from .build import Answers, build
from .formats import format_of, parse_rows, parts_of, read_text
from .shard import Job, make_shard


def main() -> None:
    """Make what is asked for, one task after the other, until nobody asks, or reads the answers."""
    pipe = Connection(int(sys.argv[1]))
    with leaving():
        maker = pipe.recv()
    while True:
        with leaving():
            task, facts = pipe.recv()
        try:
            for answer in task_of(task)(maker, **facts):
                with leaving():
                    pipe.send(answer)
            last = None
        except UserError as error:
            last = error
        with leaving():
            pipe.send(last)


@contextmanager
def leaving() -> Iterator[None]:
    """End this process where the one that asks is gone."""
    try:
        yield
    except (EOFError, OSError):
        raise SystemExit from None


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
            some = parse_rows([part], lambda row: row)  # what is no object is no row to show
        for row in some:
            if isinstance(row, dict):
                yield {"row": json.loads(json.dumps(row, default=str))}


def fingerprint(_: Any, name: str) -> Answers:
    """Yield what datasets calls the content of a data set."""
    tables = feature("tables", "data.prepare.tables", f"--data: {name}")
    yield {"fingerprint": tables.fingerprint_of(name)}


TASKS: dict[str, Callable[..., Answers]] = {
    "build": build,
    "shard": shard,
    "rows": rows,
    "fingerprint": fingerprint,
}


def task_of(name: str) -> Callable[..., Answers]:
    """Return a task by its name, or by that of the module of a feature, which is called as it is."""
    return TASKS.get(name) or getattr(import_module(name), name.rpartition(".")[2])


if __name__ == "__main__":
    main()
