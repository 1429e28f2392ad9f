"""Shards made by all cores: by processes as light as a tokenizer, each one shard at a time."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from queue import SimpleQueue

from ..text.documents import Maker
from ..text.request import Reader
from ..text.tokens import Contents
from .shard import Job, make_shard


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
