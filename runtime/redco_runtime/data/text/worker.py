"""Processes that make shards: as light as a tokenizer, since they import no JAX and no project."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from ...base.errors import UserError
from .documents import Maker
from .portable import dump_maker, load_maker
from .shard import Contents, Job, make_shard


class Worker:
    """A process that makes one shard at a time. It ends with this one, however that ends."""

    def __init__(self, maker: str) -> None:
        path = [str(Path(__file__).parents[__name__.count(".")]), os.environ.get("PYTHONPATH", "")]
        # Each process is one of those that work at once; a tokenizer's own threads would be too many.
        own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, env={**os.environ, **own}, encoding="utf-8"
        )
        self._send(maker)

    def __call__(self, job: Job) -> Contents:
        """Make a shard. Raises UserError, and RuntimeError where the process is gone."""
        try:
            self._send(job.dump())
            assert self.process.stdout
            answer = json.loads(self.process.stdout.readline())
        except (ValueError, OSError):
            code = self.process.wait()
            raise RuntimeError(
                f"a process that tokenizes has ended with {code}, at {job.parts[0].file}: see above; -9 is "
                "what a lack of memory gives. The same command goes on from the shards that are made."
            ) from None
        if "error" in answer:
            raise UserError(answer["error"])
        return Contents(**answer)

    def _send(self, line: str) -> None:
        assert self.process.stdin
        print(line, file=self.process.stdin, flush=True)


def make_shards(jobs: Sequence[Job], maker: Maker) -> Iterator[tuple[Job, Contents]]:
    """Yield (job, what its shard has) as they are made, by all cores. Raises as Worker does."""
    count = min(len(jobs), cores())
    if count < 2 or not maker.portable:
        yield from ((job, make_shard(job, maker)) for job in jobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        line = dump_maker(maker, Path(folder))
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
            worker.process.kill()
            worker.process.wait()
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Return how many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Make the shards that are asked for on stdin, until it ends."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # of the terminal: the process that asks ends this one
    # What a library prints is not to be among the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        maker = load_maker(sys.stdin.readline())
        for line in sys.stdin:
            try:
                answer = asdict(make_shard(Job.load(line), maker))
            except UserError as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), file=answers, flush=True)
