"""The process that reads data: a pipe brings tasks, and takes what they yield."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from ...base.errors import UserError
from ..text.documents import Bad, Maker, Shape, Tokens
from ..text.sources import Source, check_bad
from ..text.texts import Text
from ..text.tokens import pack
from .build import Answers, build
from .formats import describe, format_of, parse_rows, parts_of
from .reading import read_documents, read_text
from .shard import Job, make_shard
from .tables import fingerprint_of


def main() -> None:
    """Make what is asked for, one task after the other, until nobody asks, or reads the answers."""
    pipe = Connection(int(sys.argv[1]))
    with leaving():
        maker = pipe.recv()
    while True:
        with leaving():
            task, facts = pipe.recv()
        try:
            for answer in TASKS[task](maker, **facts):
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
            some = parse_rows([part], dict)
        for row in some:
            if isinstance(row, dict):
                yield {"row": json.loads(json.dumps(row, default=str))}


def fingerprint(_: Any, name: str) -> Answers:
    """Yield what datasets calls the content of a data set."""
    yield {"fingerprint": fingerprint_of(name)}


def windows(
    maker: Maker,
    sources: list[Source],
    shape: Shape,
    size: int,
    number: int,
    part: int,
    documents: int,
) -> Iterator[dict[str, Any]]:
    """Yield windows of at least `size` tokens, from the one of `number` on. Raises UserError, which names files and lines.

    part, documents: where that one begins, as of Window. shape: of the first window; no other is held out.
    """
    parts = enumerate((own, one) for own in sources for one in parts_of(own, streaming=True))
    bad: list[str] = []
    window, length, at, ahead = list[Tokens](), 0, (part, documents), documents

    def packed() -> dict[str, Any]:
        own = shape._replace(held_out=0.0) if number else shape
        index, arrays = pack(window, maker, own, number)
        places = {"number": number, "part": at[0], "documents": at[1]}
        return places | {"index": index, "arrays": arrays}

    for number_of_part, (source, one) in islice(parts, part, None):
        count = 0
        for item in read_documents(maker, [one]):
            if isinstance(item, Bad):
                bad.append(describe(item))
                check_bad(source, bad, len(bad), shape.skip_bad_rows)
                continue
            ends = item.ends is not None
            count += ends
            if ahead:
                ahead -= ends
                continue
            window.append(item)
            length += len(item.ids)
            if ends and length >= size:
                yield packed()
                window, length, number, at = [], 0, number + 1, (number_of_part, count)
    if length:
        yield packed()


TASKS: dict[str, Callable[..., Answers]] = {
    "build": build,
    "shard": shard,
    "windows": windows,
    "rows": rows,
    "fingerprint": fingerprint,
}


if __name__ == "__main__":
    main()
