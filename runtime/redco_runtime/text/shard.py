"""A shard: the tokens of some parts of a source, and the rows that lie in them.

NUMBER.tokens has ids, end to end; NUMBER.pieces.npy (P, 2) the first token and the length of each
piece, by rows; NUMBER.rows.npy where each row ends in them, held-out rows after the others. What
NUMBER.json says is written last: where it is, all is.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from redco_runtime.errors import UserError, writing
from redco_runtime.text.encoder import Encoder
from redco_runtime.text.formats import Bad, Part, Text, read_part
from redco_runtime.text.packing import Pieces, best_fit, cut, hold_out, one_a_row

BATCH = 2**20  # characters that are tokenized at once: what a process holds is some times that


@dataclass(frozen=True)
class Job:
    """A shard to make: its parts, and where; the other fields are those of TextSettings."""

    folder: str
    number: int
    parts: Sequence[Part]
    text_field: str
    sequence_length: int
    packing: str
    held_out: float
    skip_bad_rows: int

    @classmethod
    def load(cls, text: str) -> "Job":
        """Return the job that `dump` has written."""
        fields = json.loads(text)
        return cls(**fields | {"parts": [Part(*part) for part in fields["parts"]]})

    def dump(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    def path(self, kind: str) -> Path:
        """Return the path of one of its files."""
        return Path(self.folder, f"{self.number:05d}.{kind}")


@dataclass(frozen=True)
class Contents:
    """What a shard has. rows: those to train on; held_out: the others; highest: of its ids; bad: "FILE, line N WHY"."""

    rows: int
    held_out: int
    texts: int
    tokens: int
    highest: int
    bad: list[str]


def read_contents(job: Job) -> Contents | None:
    """Return what a shard has that was made before; None where it was not."""
    try:
        return Contents(**json.loads(job.path("json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def make_shard(job: Job, encoder: Encoder) -> Contents:
    """Write a shard. Where more rows than it may are bad, only say which. Raises UserError."""
    bad: list[str] = []
    with _replacing(job.path("tokens")) as file:
        lengths, texts, highest = _write_tokens(file, job, encoder, bad)
    if len(bad) > job.skip_bad_rows:
        return Contents(0, 0, 0, 0, 0, bad)
    pieces = cut(lengths, job.sequence_length)
    chosen = hold_out(pieces, job.held_out, job.number)
    order, ends = _lay_rows(pieces, np.flatnonzero(~chosen), job)
    held_order, held_ends = _lay_rows(pieces, np.flatnonzero(chosen), job)
    starts = np.concatenate([np.zeros(1, np.int64), ends, held_ends + len(order)])
    order = np.concatenate([order, held_order])
    with _replacing(job.path("pieces.npy")) as file:
        np.save(file, np.stack([pieces.starts[order], pieces.lengths[order]], axis=1))
    with _replacing(job.path("rows.npy")) as file:
        np.save(file, starts)
    tokens = int(lengths.sum())
    contents = Contents(len(ends), len(held_ends), texts, tokens, highest, bad)
    with _replacing(job.path("json")) as file:
        file.write(json.dumps(asdict(contents)).encode())
    return contents


def _lay_rows(pieces: Pieces, some: np.ndarray, job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Return (`some` of the pieces, in the order of their rows, where each row ends in it)."""
    lengths = pieces.lengths[some]
    packed = job.packing == "on"
    order, ends = best_fit(lengths, job.sequence_length) if packed else one_a_row(lengths)
    return some[order], ends


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of `path` once it is whole: another process may be at it too."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with writing(path, option="--token-folder"):
        with open(temporary, "wb") as file:
            yield file
        temporary.replace(path)


def _write_tokens(
    file: BinaryIO, job: Job, encoder: Encoder, bad: list[str]
) -> tuple[np.ndarray, int, int]:
    """Write the ids of a shard; return how many each document has, how many end in it, the highest id."""
    begin, end = (np.array(ids, encoder.dtype) for ids in (encoder.begin, encoder.end))
    lengths: list[int] = []
    length = ended = 0  # tokens of the document that goes on; documents
    highest = max([*encoder.begin, *encoder.end], default=0)
    for batch in _batches(job, bad):
        for ids, text in zip(encoder([text.text for text in batch]), batch, strict=True):
            if len(ids) and not length:
                begin.tofile(file)
                length = len(begin)
            ids.tofile(file)
            length += len(ids)
            highest = max(highest, int(ids.max(initial=0)))
            if text.ends is not None and length:
                if text.ends:
                    end.tofile(file)
                    ended += 1
                lengths.append(length + len(end) * text.ends)
                length = 0
    return np.array(lengths, np.int64), ended, highest


def _batches(job: Job, bad: list[str]) -> Iterator[list[Text]]:
    """Yield the texts of a shard, about BATCH characters at a time; put the rows that are none into `bad`."""
    batch: list[Text] = []
    size = 0
    for item in (item for part in job.parts for item in _read(part, job.text_field)):
        if isinstance(item, Bad):
            bad.append(f"{item.where} {item.why}")
            if len(bad) > job.skip_bad_rows:
                return
            continue
        batch.append(item)
        size += len(item.text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _read(part: Part, field: str) -> Iterator[Text | Bad]:
    """Yield the documents of a part, and the rows that are none. Raises UserError where it is gone."""
    try:
        yield from read_part(part, field)
    except OSError as error:
        raise UserError(f"--data: {part.file} cannot be read: {error.strerror or error}") from error
