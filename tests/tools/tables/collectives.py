"""Writes collectives.md, the table of what the compiled programs of the zoo send.

make table NAME=collectives      half an hour on two cores
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compiled.targets import TARGETS, environment
from tables.markdown import written

TABLE = Path(__file__).with_name("collectives.md")


def run_module(module: str, *arguments: str, path: str = "", echo: bool = False) -> list[Any]:
    """The records that a module prints, a line of JSON each; `echo` prints them as they come.

    path: a folder of packages that it imports besides.
    Raises RuntimeError with the end of its stderr if it fails.
    """
    command = [sys.executable, "-m", module, *arguments]
    env = environment()
    env["PYTHONPATH"] += os.pathsep + path
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    records = []
    with (
        subprocess.Popen(command, env=env, **pipes) as process,
        ThreadPoolExecutor(1) as reader,
    ):
        errors = reader.submit(process.stderr.read)
        for line in process.stdout:
            records.append(json.loads(line))
            if echo:
                print(line, end="", flush=True)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{errors.result()[-4000:]}")
    return records


def run_worker(target: str, *arguments: str, echo: bool = False) -> list[dict[str, Any]]:
    """The records of a process of worker.py."""
    return run_module("compiled.worker", target, *arguments, echo=echo)


def run_workers(arguments: dict[str, Sequence[str]], echo: bool = False) -> list[dict[str, Any]]:
    """The records of one worker a target, {target: arguments}, side by side."""
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(run_worker, t, *given, echo=echo) for t, given in arguments.items()]
    return [record for future in done for record in future.result()]


if __name__ == "__main__":
    TABLE.write_text(written(run_workers(dict.fromkeys(TARGETS, ()), echo=True)))
