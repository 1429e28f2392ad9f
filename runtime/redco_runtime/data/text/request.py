"""What is asked of a process that reads data: of its own, as light as a tokenizer, since it imports no JAX and no project."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from ...base.messages import UserError
from .documents import Maker

RUNTIME = __name__.removesuffix(".data.text.request")

Answers = Generator[dict[str, Any], None, None]


def ask(task: str, maker: Maker | None = None, **facts: Any) -> Answers:
    """Yield the answers of a task, of those in prepare/program.py. Raises UserError.

    facts: its arguments. A maker whose tokenizer is code of this program works in it.
    """
    if maker and not maker.portable:
        yield from import_module(f"{RUNTIME}.data.prepare.program").task_of(task)(maker, **facts)
        return
    with Reader(maker) as reader:
        yield from reader.ask(task, **facts)


class Reader(AbstractContextManager["Reader"]):
    """A process that reads data, until `with` ends; Ctrl-C of a terminal is not for it. variables: of its environment."""

    def __init__(self, maker: Maker | None, **variables: str) -> None:
        path = [str(Path(__file__).parents[__name__.count(".")]), os.environ.get("PYTHONPATH", "")]
        own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), **variables}
        self.pipe, theirs = Pipe()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{RUNTIME}.data.prepare.program", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # what a library prints is no result of this program
                stderr=sys.stderr,
                env={**os.environ, **own},
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        self._send(maker)

    def ask(self, task: str, **facts: Any) -> Answers:
        """Yield what it answers to a task. Raises UserError."""
        self._send((task, facts))
        with suppress(EOFError, OSError):  # as of a message that is cut short
            while answer := self.pipe.recv():
                if isinstance(answer, UserError):
                    raise answer
                yield answer
            return
        code = self.process.wait()
        todo = "mend what is said above, of your data or of pipeline.py"
        if code == -9:
            todo = "a lack of memory gives that: the same command goes on from what was made"
        raise UserError(f"the process that reads --data has ended with {code}: {todo}")

    def _send(self, message: Any) -> None:
        with suppress(OSError):  # where it has ended, which is seen as it does not answer
            self.pipe.send(message)

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
