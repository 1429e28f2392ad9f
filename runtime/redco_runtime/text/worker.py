"""Processes that make shards: as light as a tokenizer, since they import no JAX and no project."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import redco_runtime
from redco_runtime.errors import UserError
from redco_runtime.text.shard import Encoder, Job, Contents, make_shard


class Worker:
    """A process that makes one shard at a time. It ends with this one, however that ends."""

    def __init__(self, encoder: Encoder) -> None:
        path = [str(Path(redco_runtime.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        # Each process is one of those that work at once; a tokenizer's own threads would be too many.
        own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env={**os.environ, **own})
        self._send(encoder)

    def __call__(self, job: Job) -> Contents:
        """Make a shard. Raises UserError, and RuntimeError where the process is gone."""
        try:
            self._send(job)
            result: Contents | UserError = pickle.load(self.process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError):
            code = self.process.wait()
            raise RuntimeError(
                f"a process that tokenizes has ended with {code}, at {job.parts[0].file}: see above; -9 is "
                "what a lack of memory gives. The same command goes on from the shards that are made."
            ) from None
        if isinstance(result, UserError):
            raise result
        return result

    def _send(self, value: Encoder | Job) -> None:
        assert self.process.stdin
        pickle.dump(value, self.process.stdin)
        self.process.stdin.flush()


def make_shards(jobs: Sequence[Job], encoder: Encoder) -> Iterator[tuple[Job, Contents]]:
    """Yield (job, what its shard has) as they are made, by all cores. Raises as Worker does."""
    count = min(len(jobs), cores())
    if count < 2:  # a process would take longer to start
        yield from ((job, make_shard(job, encoder)) for job in jobs)
        return
    workers = [Worker(encoder) for _ in range(count)]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def make(job: Job) -> tuple[Job, Contents]:
        worker = idle.get()
        try:
            return job, worker(job)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(count)
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
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        encoder = pickle.load(sys.stdin.buffer)
        while True:
            try:
                job = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                result: Contents | UserError = make_shard(job, encoder)
            except UserError as error:
                result = error
            pickle.dump(result, answers)
            answers.flush()
