"""A source to a folder of shards: by one process and its workers, once; the others wait for it."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from ...base.errors import UserError, writing
from ...base.paths import is_bucket, path_of
from ...base.progress_bar import ProgressBar
from ..text.documents import Maker, Part, Shape
from ..text.request import Reader
from ..text.rows import count_bad
from ..text.sources import Source, check_bad, check_ids
from ..text.tokens import Contents, index_of
from .formats import parts_of
from .shard import Job, make_shard, read_contents

LOOK = 0.5  # seconds between two looks at what another process makes
Answers = Iterator[dict[str, Any]]


def build(
    maker: Maker, source: Source, path: Path, vocabulary: int, shape: Shape, folder: str
) -> Answers:
    """Make the index of a source's rows at `path`, and its shards; yield signs of life. Raises UserError.

    vocabulary: ids that a model has. folder: that has such of all sources, and may be in a bucket.
    """
    there = path_of(folder) / path.parent.name
    with writing(path.parent.parent, option="--token-folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.parent / "lock", "w") as lock:
            yield from _wait(lock, path.parent, source.name)
            if not path.exists() and is_bucket(there):
                there.bring(path)
            if not path.exists():
                yield from _make(maker, source, path, vocabulary, shape)
                if is_bucket(there):
                    there.fill(path.parent)


def shards_of(source: Source, size: int) -> list[list[Part]]:
    """Return its parts, in order, by the shard of about `size` bytes that they go into. Raises UserError."""
    shards: list[list[Part]] = []
    room = 0
    for part in parts_of(source):
        if room <= 0:
            shards.append([])
            room = size
        shards[-1].append(part)
        room -= part.size
    return shards


def _make(maker: Maker, source: Source, path: Path, vocabulary: int, shape: Shape) -> Answers:
    shards = enumerate(shards_of(source, maker.shard))
    jobs = [Job(path.parent, number, parts, shape) for number, parts in shards]
    before = {job.number: read_contents(job.path(f"{shape.layout}.json")) for job in jobs}
    contents = {number: one for number, one in before.items() if one}
    left = [job for job in jobs if job.number not in contents]
    sizes = {job.number: sum(part.size for part in job.parts) for job in jobs}
    done, said = sum(sizes[number] for number in contents), False
    name = f"making tokens of {source.name}"
    with ProgressBar(name, sum(sizes.values()), "B", done) as shown:
        for job, one in make_shards(left, maker):
            answer = {"at": "the tokens of its data"}
            contents[job.number] = one
            check_ids(source.name, one.highest, vocabulary)
            shown.update(sizes[job.number])
            if one.bad_rows > shape.skip_bad_rows and len(contents) < len(jobs) and not said:
                said = True  # before the rest, which may take long, is counted
                why = "the other rows are read, to count the bad ones"
                answer["say"] = f"data: {one.bad[0]}: {why}"
            yield answer
    index = index_of([contents[job.number] for job in jobs], maker, shape)
    check_bad(source, index["bad"], count_bad(index), shape.skip_bad_rows)
    if not sum(index["rows"]):
        raise UserError(
            f"{source.flag}: {source.name} has no {maker.noun} to train on: it is empty, or has less "
            "than is held out"
        )
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(index))
    temporary.replace(path)
    for leftover in path.parent.glob("*.tmp"):  # of a build that was killed
        leftover.unlink(missing_ok=True)


def _wait(lock: TextIO, folder: Path, name: str) -> Answers:
    """Wait until no other process, of this host or of those that share the folder, makes its shards."""
    answer, ready = {"say": f"data: waiting for the process that tokenizes {name}"}, -1
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        if ready != (count := len([*folder.glob("*.json")])):
            ready = count  # it goes on, so no deadline is due
            yield answer | {"at": "the tokens of its data, which another process makes"}
            answer = {}
        time.sleep(LOOK)


def make_shards(jobs: Sequence[Job], maker: Maker) -> Iterator[tuple[Job, Contents]]:
    """Yield (job, what its shard has) as they are made, by all cores. Raises UserError."""
    count = min(len(jobs), cores())
    if count < 2 or not maker.portable:
        yield from ((job, make_shard(job, maker)) for job in jobs)
        return
    idle: SimpleQueue[Reader] = SimpleQueue()

    def make(job: Job) -> tuple[Job, Contents]:
        worker = idle.get()
        try:
            (answer,) = worker.ask("shard", job=job)
            return job, answer["contents"]
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(count)
    with ExitStack() as workers:
        workers.callback(pool.shutdown, cancel_futures=True)
        for _ in range(count):
            # A tokenizer's own threads would be too many beside so many processes.
            worker = Reader(maker, TOKENIZERS_PARALLELISM="false")
            idle.put(workers.enter_context(worker))
        for future in as_completed([pool.submit(make, job) for job in jobs]):
            yield future.result()


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
