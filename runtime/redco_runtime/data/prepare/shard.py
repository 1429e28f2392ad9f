"""A shard: the tokens of some parts of a source, and the rows that lie in them, in each layout that a run asks for.

NUMBER.tokens has ids, end to end; NUMBER.marks their marks, where they have any; NUMBER.lengths.npy how many each
document has. Of a layout, NUMBER.LAYOUT.pieces.npy (P, 2) has the first token and the length of each piece, by rows;
NUMBER.LAYOUT.rows.npy where each row ends in them, held-out rows after the others. What NUMBER.json and
NUMBER.LAYOUT.json say is written last: where it is, all is.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ...base.messages import UserError, writing
from ..text.documents import NAMED, Bad, Contents, Maker, Part, Shape, Tokens, write_documents
from ..text.packing import lay_out
from .formats import describe, read_documents


@dataclass(frozen=True)
class Job:
    """A shard to make: its parts, and where, in the folder `root` of a source."""

    root: Path
    folder: Path
    number: int
    parts: Sequence[Part]
    shape: Shape

    def path(self, kind: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.number:05d}.{kind}"


def read_contents(path: Path) -> Contents | None:
    """Return what a shard has that was made before, by its .json; None where it was not."""
    try:
        return Contents(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def make_shard(job: Job, maker: Maker) -> Contents:
    """Write a shard and, unless more of its rows than may are bad, its layout. Raises UserError."""
    contents = read_contents(job.path("json")) or _tokenize(job, maker)
    return contents if contents.bad_rows > job.shape.skip_bad_rows else _lay_out(job, contents)


def _tokenize(job: Job, maker: Maker) -> Contents:
    contents = Contents()
    with ExitStack() as files:
        tokens = files.enter_context(_replacing(job.path("tokens")))
        marks = files.enter_context(_replacing(job.path("marks"))) if maker.marks else None
        documents = _documents(job, maker, contents)
        lengths = np.array([*write_documents(documents, contents, tokens, marks)], np.int64)
    if contents.bad_rows > job.shape.skip_bad_rows:
        for kind in ("tokens", "marks"):
            job.path(kind).unlink(missing_ok=True)
        return contents
    with _replacing(job.path("lengths.npy")) as file:
        np.save(file, lengths)
    with _replacing(job.path("json")) as file:
        file.write(json.dumps(asdict(contents)).encode())
    return contents


def _lay_out(job: Job, contents: Contents) -> Contents:
    layout = lay_out(np.load(job.path("lengths.npy")), job.shape, job.number)
    name = job.shape.layout
    for kind, array in (("pieces", layout.pieces), ("rows", layout.rows)):
        with _replacing(job.path(f"{name}.{kind}.npy")) as file:
            np.save(file, array)
    contents = replace(contents, rows=layout.train, held_out=layout.held_out)
    with _replacing(job.path(f"{name}.json")) as file:
        file.write(json.dumps(asdict(contents)).encode())
    return contents


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` once it is whole: another process may be at it too."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path, option="--token-folder"):
            with open(temporary, "wb") as file:
                yield file
            temporary.replace(path)
    finally:  # where it is not whole, so that a disk that is full has its room again
        temporary.unlink(missing_ok=True)


def _documents(job: Job, maker: Maker, contents: Contents) -> Iterator[Tokens]:
    """Yield the documents of a shard; count the rows that are none, and name the first."""
    try:
        for item in read_documents(maker, job.parts):
            if isinstance(item, Bad):
                if len(contents.bad) < NAMED:
                    contents.bad.append(describe(item))
                else:
                    contents.more_bad += 1
            else:
                yield item
    except OSError as error:
        raise UserError(f"--data: cannot be read: {error}: mend it, or leave it out") from error
