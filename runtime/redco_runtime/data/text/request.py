"""What is asked of a process that reads data: of its own, as light as a tokenizer, since it imports no JAX and no project."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...base.errors import UserError
from .documents import Maker

RUNTIME = __name__.removesuffix(".data.text.request")

Answers = Generator[dict[str, Any], None, None]


def ask(task: str, maker: Maker | None = None, **facts: Any) -> Answers:
    """Yield the answers of a task, of those in prepare/tasks.py: plain values, and "arrays" by name. Raises UserError.

    facts: what it is of, as JSON has it. A maker whose tokenizer is code of this program works in it.
    """
    if maker and not maker.portable:
        yield from import_module(f"{RUNTIME}.data.prepare.tasks").answers(task, maker, **facts)
        return
    with TemporaryDirectory() as folder:
        process = start(dump_maker(maker, Path(folder)) if maker else "")
        try:
            yield from exchange(process, task, facts)
        finally:
            end(process)


def dump_maker(maker: Maker, folder: Path) -> str:
    """Return a maker, a dataclass of plain values, of dataclasses and of a tokenizer, as a line of JSON.

    No pickle, which runs what it is given. folder: empty, where the tokenizer is saved.
    """

    def plain(value: Any) -> Any:
        if hasattr(value, "save_pretrained"):
            value.save_pretrained(folder)
            return {"tokenizer": str(folder)}
        if is_dataclass(value):
            kind = type(value)
            own = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
            return {"module": kind.__module__, "class": kind.__name__, "fields": own}
        return value

    return json.dumps(plain(maker))


def start(maker: str, **variables: str) -> subprocess.Popen[bytes]:
    """Start a process that reads data; Ctrl-C of a terminal is not for it. maker: as JSON, "" for none."""
    path = [str(Path(__file__).parents[__name__.count(".")]), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", f"{RUNTIME}.data.prepare.program"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **own},
        process_group=0,
    )
    _write(process, maker)
    return process


def exchange(process: subprocess.Popen[bytes], task: str, facts: dict[str, Any]) -> Answers:
    """Yield what a process answers to a task. Raises UserError."""
    assert process.stdout
    _write(process, json.dumps([task, facts]))
    while (line := process.stdout.readline()).endswith(b"\n"):
        answer = json.loads(line)
        if not answer:
            return
        if "error" in answer:
            raise UserError(answer["error"])
        for name, (dtype, shape) in answer.get("arrays", {}).items():
            size = np.dtype(dtype).itemsize * int(np.prod(shape))
            data = process.stdout.read(size)
            answer["arrays"][name] = np.frombuffer(data, dtype).reshape(shape)
        yield answer
    raise UserError(
        f"the process that reads --data has ended with {process.wait()}: see above; -9 is what a lack of memory gives. "
        "The same command goes on from what was made."
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, whatever it does."""
    process.kill()
    with suppress(BrokenPipeError), process:  # which closes its pipes, and waits
        pass


def _write(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin
    with suppress(BrokenPipeError):  # where it has ended, which is seen as it does not answer
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
