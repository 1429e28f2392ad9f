"""Runs `python -m MODULE ...`, `python FILE ...` and redco as children of a process that has imported what takes long.

Imports are a third of the CPU's time of a short run of a project, redco's templates a tenth of one of
redco. Else a child is as new: it has nothing of a project, no device and no thread.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import runpy
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from once import compile_all, make_once

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
# What train.py of every project and redco import, of other people's.
PACKAGES = ("jax", "flax.linen", "flax.nnx", "optax", "orbax.checkpoint", "transformers")
PACKAGES += (
    "transformers.models",
    "black",
    "copier",
    "libcst.metadata",
    "tomlkit",
    "typer.rich_utils",
    "yaml",
)
SCRIPTS = {"redco": "redco_main", "redco-new": "new_main"}  # of redco_new.cli
READ = re.compile("(JAX|HF|TRANSFORMERS|TF|PYTHON|LD|OMP|XDG)_?|HOME$")  # variables, by these
BEGINS = re.compile(
    rf"(?:python|{re.escape(sys.executable)}) (?=-m |\S+\.py\b)|(?=redco(?:-new)? )"
)
SHELL = re.compile(r"[|&;<>$`*?~\n]")  # what a shell is needed for


class Forker:
    """A process that has imported, with the variables of its time, and forks."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._lock = read_by_imports(env), threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=self._env,
        )
        atexit.register(self._end)

    def has(self, env: Mapping[str, str]) -> bool:
        """Whether a process of these variables imports the same."""
        return read_by_imports(env) == self._env

    def run(
        self, arguments: list[str], folder: Path, env: Mapping[str, str], seconds: float
    ) -> tuple[int, str, str]:
        """Return (exit code, stdout, stderr) of Python with arguments, or of a script. Raises TimeoutExpired."""
        with tempfile.TemporaryDirectory() as place, self._lock:
            out, err = (Path(place) / name for name in ("out", "err"))
            task = [arguments, str(Path(folder).resolve()), dict(env), str(out), str(err)]
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            child = json.loads(self._process.stdout.readline())
            done = select.select([self._process.stdout], [], [], seconds)[0]
            if not done:
                os.killpg(child, signal.SIGKILL)
            code = json.loads(self._process.stdout.readline())
            texts = out.read_text(), err.read_text()
        if not done:
            raise subprocess.TimeoutExpired(arguments, seconds, *texts)
        return code, *texts

    def _end(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


FORKERS: list[Forker] = []  # one at most, which begins with the first program


def run_forked(
    command: str, folder: Path, env: Mapping[str, str], seconds: float
) -> tuple[int, str, str] | None:
    """Return (exit code, stdout, stderr) of a command; None where it is none of Python alone, or imports otherwise.

    Raises TimeoutExpired.
    """
    begins = BEGINS.match(command)
    if not begins or SHELL.search(command) or "PYTHONPATH" in env:  # which is relative to a folder
        return None
    if not FORKERS:
        FORKERS.append(Forker(env))
    if not FORKERS[0].has(env):
        return None
    return FORKERS[0].run(shlex.split(command[begins.end() :]), folder, env, seconds)


def read_by_imports(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that imports read."""
    return {name: value for name, value in env.items() if READ.match(name)}


def serve() -> None:
    """Run what stdin has, a task a line; write the number of each child, and its exit code. Return in a child."""
    for package in PACKAGES:
        importlib.import_module(package)
    make_once()
    compile_all(TEMPLATES)
    gc.freeze()
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            return become(*json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(arguments: list[str], folder: str, env: dict[str, str], out: str, err: str) -> None:
    """Be Python with these arguments, or a script with those behind its name."""
    os.setsid()
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    texts = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in (out, err)]
    for number, place in enumerate([nothing, *texts]):
        os.dup2(place, number)
        os.close(place)
    os.environ.clear()
    os.environ.update(env)
    # What was imported stays frozen: at its end Python would look through all of it, for half a second.
    sys.orig_argv = [sys.executable, *arguments]
    if arguments[0] in SCRIPTS:
        sys.argv, sys.path[0] = arguments, str(Path(sys.executable).parent)
        sys.exit(getattr(importlib.import_module("redco_new.cli"), SCRIPTS[arguments[0]])())
    elif arguments[0] == "-m":
        sys.argv, sys.path[0] = arguments[1:], folder
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = arguments, str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    serve()
