"""Shards made by all cores: by processes as light as a tokenizer, each one shard at a time."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from queue import SimpleQueue
from subprocess import Popen

from ..text.documents import Maker
from ..text.request import end, exchange, start
from ..text.tokens import Contents
from .shard import Job, make_shard


def make_shards(jobs: Sequence[Job], maker: Maker, line: str) -> Iterator[tuple[Job, Contents]]:
    """Yield (job, what its shard has) as they are made, by all cores. Raises UserError.

    line: the maker as JSON; "" where no other process can have it.
    """
    count = min(len(jobs), cores())
    if count < 2 or not line:
        yield from ((job, make_shard(job, maker)) for job in jobs)
        return
    # A tokenizer's own threads would be too many beside so many processes.
    yield from _by_workers(
        jobs, [start(line, TOKENIZERS_PARALLELISM="false") for _ in range(count)]
    )


def _by_workers(jobs: Sequence[Job], workers: list[Popen[bytes]]) -> Iterator[tuple[Job, Contents]]:
    """Yield as `make_shards`, by processes that are ended then."""
    idle: SimpleQueue[Popen[bytes]] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def make(job: Job) -> tuple[Job, Contents]:
        worker = idle.get()
        try:
            (answer,) = exchange(worker, "shard", asdict(job))
            return job, Contents(**answer)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(len(workers))
    try:
        for future in as_completed([pool.submit(make, job) for job in jobs]):
            yield future.result()
    finally:
        for worker in workers:
            end(worker)
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
