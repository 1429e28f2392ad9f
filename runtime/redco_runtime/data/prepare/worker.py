"""Processes that make shards: as light as a tokenizer, since they import no JAX and no project."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from queue import SimpleQueue

from ...base.errors import UserError
from ..text.documents import Maker
from ..text.request import RUNTIME, end, start
from ..text.tokens import Contents
from .makers import load_maker
from .shard import Job, make_shard


class Worker:
    """A process that makes one shard at a time. It ends with this one, however that ends."""

    def __init__(self, maker: str) -> None:
        # Each process is one of those that work at once; a tokenizer's own threads would be too many.
        self.process = start(f"{RUNTIME}.data.prepare.worker", TOKENIZERS_PARALLELISM="false")
        self._send(maker)

    def __call__(self, job: Job) -> Contents:
        """Make a shard. Raises UserError."""
        try:
            self._send(job.dump())
            assert self.process.stdout
            answer = json.loads(self.process.stdout.readline())
        except (ValueError, OSError):
            code = self.process.wait()
            raise UserError(
                f"a process that tokenizes has ended with {code}, at {job.parts[0].file}: see above; -9 is "
                "what a lack of memory gives. The same command goes on from the shards that are made."
            ) from None
        if "error" in answer:
            raise UserError(answer["error"])
        return Contents(**answer)

    def _send(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()


def make_shards(jobs: Sequence[Job], maker: Maker, line: str) -> Iterator[tuple[Job, Contents]]:
    """Yield (job, what its shard has) as they are made, by all cores. Raises UserError.

    line: the maker as JSON; "" where no other process can have it.
    """
    count = min(len(jobs), cores())
    if count < 2 or not line:
        yield from ((job, make_shard(job, maker)) for job in jobs)
        return
    yield from _by_workers(jobs, [Worker(line) for _ in range(count)])


def _by_workers(jobs: Sequence[Job], workers: list[Worker]) -> Iterator[tuple[Job, Contents]]:
    """Yield as `make_shards`, by processes that are ended then."""
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def make(job: Job) -> tuple[Job, Contents]:
        worker = idle.get()
        try:
            return job, worker(job)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(len(workers))
    try:
        for future in as_completed([pool.submit(make, job) for job in jobs]):
            yield future.result()
    finally:
        for worker in workers:
            end(worker.process)
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Make the shards that are asked for on stdin, until it ends."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not to be among the answers
    maker = load_maker(sys.stdin.readline())
    for line in sys.stdin:
        try:
            answer = asdict(make_shard(Job.load(line), maker))
        except UserError as error:
            answer = {"error": str(error)}
        with suppress(BrokenPipeError):  # nobody asks any more
            os.write(answers, f"{json.dumps(answer)}\n".encode())


if __name__ == "__main__":
    main()
