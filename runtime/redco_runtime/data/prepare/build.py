"""A source to a folder of shards, once: each of the processes that come makes its part, with its workers, and the first that is done the index."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from ...base.messages import UserError, feature, writing
from ...base.files import is_bucket, path_of
from ...base.progress import ProgressBar
from ..text.documents import Contents, Maker, Part, Shape, index_of
from ..text.sources import Reader, Source, check_bad, check_ids
from ..text.rows import count_bad, folder_of
from .formats import parts_of
from .shard import Job, make_shard, read_contents

LOOK = 0.5  # seconds between two looks at what another process makes, at first
LONG_LOOK = 5.0  # and then: of a thousand hosts, 200 a second
# Shards of a large source, each a few files that a process has open: Linux lets it have 65,530 maps.
SHARDS = 4000
OLD = 3600.0  # seconds since a file was last written that nobody writes
MOST = 2**30  # bytes of a shard: a kill loses some minutes of each core
Answers = Iterator[dict[str, Any]]
Made = Generator[dict[str, Any], None, dict[int, Contents]]


def build(
    maker: Maker,
    source: Source,
    path: Path,
    vocabulary: int,
    shape: Shape,
    folder: str,
    place: tuple[int, int] = (0, 1),
) -> Answers:
    """Make the index of a source's rows at `path`, and its shards; yield signs of life. Raises UserError.

    vocabulary: ids that a model has. folder: that has such of all sources, and may be in a bucket.
    place: which of how many processes this is that come here at once.
    """
    there = path_of(folder) / path.parent.name
    with writing(path.parent.parent, option="--token-folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.parent / "lock", "ab") as lock:
            claims = Claims(lock)
            bucket = None
            if is_bucket(there):
                bucket = feature("buckets", "data.prepare.shared_shards").Shared(there, maker)
                claims.free = bucket.take if place[1] == 1 else claims.free
                yield from claims.wait()  # for another of this host, which brings it
                if not path.exists():
                    yield from bucket.bring(path.parent)
                claims.leave()
            if not path.exists():
                task = _Task(maker, source, vocabulary, claims, bucket)
                yield from task.make_all(path, shape, place)


class Claims:
    """What this process makes, and no other that sees the folder: of a file a byte a shard, and the first for the index."""

    def __init__(self, lock: BinaryIO) -> None:
        self._lock = lock
        self.free: Callable[[Job], bool] = lambda job: True  # of other hosts; then it is taken

    def take(self, number: int = -1) -> bool:
        """Return whether nobody else has a shard, or the index."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number + 1)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            return False
        return True

    def leave(self, number: int = -1) -> None:
        """Give up a shard, or the index."""
        fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, number + 1)

    def wait(self, number: int = -1, answer: Mapping[str, str] = {}) -> Answers:
        """Take a shard, or the index, once the process that has it lets it go, or has ended."""
        pause = LOOK
        while not self.take(number):
            yield {**answer, "at": "the tokens of its data, which another process makes"}
            answer = {}
            time.sleep(pause)
            pause = min(2 * pause, LONG_LOOK)


def shards_of(parts: Iterable[Part], size: int) -> list[list[Part]]:
    """Return the parts of a source, in order, by the shard of about `size` bytes that they go into. Raises UserError."""
    shards: list[list[Part]] = []
    room = 0
    for part in parts:
        if room <= 0:
            shards.append([])
            room = size
        shards[-1].append(part)
        room -= part.size
    return shards


def _jobs(maker: Maker, source: Source, folder: Path, shape: Shape) -> list[Job]:
    """Return the shards of a source: those of an index of an earlier version lie in the folder itself, at its size."""
    parts = [*parts_of(source)]
    flat = any("folder" not in json.loads(file.read_text()) for file in folder.glob("index-*.json"))
    size = maker.shard
    if not flat:
        size = max(size, min(MOST, sum(part.size for part in parts) // SHARDS))
    name = "" if flat else f"{size / 2**20:g}-MB"
    shards = enumerate(shards_of(parts, size))
    return [
        Job(folder, folder_of(folder, name, number), number, own, shape) for number, own in shards
    ]


@dataclass(frozen=True)
class _Task:
    """What is made of a source."""

    maker: Maker
    source: Source
    vocabulary: int
    claims: Claims
    bucket: Any  # Shared, of a folder in a bucket, which other hosts fill too; None for none

    def make_all(self, path: Path, shape: Shape, place: tuple[int, int]) -> Answers:
        """Make the shards, together with others, and the index at `path`, unless another process of this host has."""
        jobs = _jobs(self.maker, self.source, path.parent, shape)
        for folder in {job.folder for job in jobs}:
            folder.mkdir(exist_ok=True)
        first, last = (len(jobs) * (place[0] + more) // place[1] for more in (0, 1))
        began = time.monotonic()
        contents = yield from self.make(jobs[first:last], place[1] == 1, shown=place[0] == 0)
        wait = {"say": f"data: waiting for the process that tokenizes {self.source.name}"}
        yield from self.claims.wait(answer=wait)
        if path.exists():
            return
        if self.bucket:
            own = index_of([*contents.values()], self.maker, shape)
            check_bad(self.source, own["bad"], count_bad(own), shape.skip_bad_rows)
            left = [job for job in jobs if job.number not in contents]
            spent = time.monotonic() - began
            contents |= yield from self.bucket.receive(left, spent, self.source.name)
            self.claims.free = lambda job: True  # what others have not brought
        contents |= yield from self.make([job for job in jobs if job.number not in contents])
        for job in jobs:
            while job.number not in contents:  # another process has it
                yield from self.claims.wait(job.number)
                self.claims.leave(job.number)
                contents |= yield from self.make([job])
        self.write_index(path, jobs, contents)

    def write_index(
        self, path: Path, jobs: Sequence[Job], contents: Mapping[int, Contents]
    ) -> None:
        """Write the index of all shards. Raises UserError where more of their rows than may are bad, or none is left."""
        shape = jobs[0].shape
        index = index_of([contents[job.number] for job in jobs], self.maker, shape)
        if jobs[0].folder != path.parent:
            index["folder"] = jobs[0].folder.name.rpartition("-")[0]
        check_bad(self.source, index["bad"], count_bad(index), shape.skip_bad_rows)
        if not sum(index["rows"]):
            what = (
                f"has no {self.maker.noun} to train on: it is empty, or has less than is held out"
            )
            raise UserError(f"{self.source.flag}: {self.source.name} {what}")
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(index))
        temporary.replace(path)
        if self.bucket:
            self.bucket.there.fill(path.parent, [path.name])
        for folder in {job.folder for job in jobs}:
            for leftover in folder.glob("*.tmp"):  # of a build that was killed
                with suppress(FileNotFoundError):
                    if leftover.stat().st_mtime < time.time() - OLD:
                        leftover.unlink()

    def make(self, jobs: Sequence[Job], alone: bool = False, shown: bool = False) -> Made:
        """Make the shards that nobody makes; return what those have that are there. Raises UserError.

        alone: no other process of its run makes some of them. shown: whether a bar shows it.
        """
        before = {job.number: read_contents(job.path(f"{job.shape.layout}.json")) for job in jobs}
        contents = {number: one for number, one in before.items() if one}
        left = [job for job in jobs if job.number not in contents]
        for job in (job for job in jobs if self.bucket and job.number in contents):
            self.bucket.send(job, contents[job.number])
        sizes = {job.number: sum(part.size for part in job.parts) for job in jobs}
        done, said = sum(sizes[number] for number in contents), False
        name = f"making tokens of {self.source.name}"
        with ProgressBar(name, sum(sizes.values()), "B", done, shown) as bar:
            for job, one in make_shards(left, self.maker, self.claims):
                if one is None:
                    continue
                answer = {"at": "the tokens of its data"}
                contents[job.number] = one
                check_ids(self.source.name, one.highest, self.vocabulary)
                if self.bucket:
                    self.bucket.send(job, one)
                bar.update(sizes[job.number])
                bad = one.bad_rows > job.shape.skip_bad_rows
                if bad and alone and len(contents) < len(jobs) and not said:
                    said = True  # before the rest, which may take long, is counted
                    why = "the other rows are read, to count the bad ones"
                    answer["say"] = f"data: {one.bad[0]}: {why}"
                yield answer
        return contents


def make_shards(
    jobs: Sequence[Job], maker: Maker, claims: Claims
) -> Iterator[tuple[Job, Contents | None]]:
    """Yield (job, what its shard has, None where another process makes it) as they are made, by all cores. Raises UserError."""
    count = min(len(jobs), cores())
    if count < 2 or not maker.portable:
        here = partial(make_shard, maker=maker)
        yield from ((job, _claimed(job, claims, here)) for job in jobs)
        return
    idle: SimpleQueue[Reader] = SimpleQueue()

    def ask(job: Job) -> Contents:
        worker = idle.get()
        try:
            (answer,) = worker.ask("shard", job=job)
            return answer["contents"]
        finally:
            idle.put(worker)

    def make(job: Job) -> tuple[Job, Contents | None]:
        return job, _claimed(job, claims, ask)

    pool = ThreadPoolExecutor(count)
    with ExitStack() as workers:
        workers.callback(pool.shutdown, cancel_futures=True)
        for _ in range(count):
            # A tokenizer's own threads would be too many beside so many processes.
            worker = Reader(maker, TOKENIZERS_PARALLELISM="false")
            idle.put(workers.enter_context(worker))
        for future in as_completed([pool.submit(make, job) for job in jobs]):
            yield future.result()


def _claimed(job: Job, claims: Claims, make: Callable[[Job], Contents]) -> Contents | None:
    """Return what `make` does of a shard, unless another process is at it, or was."""
    if not claims.take(job.number):
        return None
    try:
        there = read_contents(job.path(f"{job.shape.layout}.json"))
        return there or (make(job) if claims.free(job) else None)
    finally:
        claims.leave(job.number)


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
