"""Compiling the step of a project for a machine that is not here, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from redco_new.errors import RedcoError
from redco_new.project.manifest import read_manifest
from redco_new.request.names import package_name
from redco_new.project.state import find_root
from redco_new.project.sandbox import temporary_folder

from redco_fit.compilers import environment
from redco_fit.reading import Job, Reading
from redco_fit.target import Target

Progress = Callable[[str], None]
CHILD = "redco_fit.child"  # the module that compiles
# What XLA says of a flag in the environment before it ends the process.
UNKNOWN_FLAG = re.compile(r"Unknown flags? in (\w+): ([^\s;]+)")
LAST_WORDS = 600  # characters of what the process printed: its end, in one screen


def compile_step(
    folder: Path, target: Target, job: Job | None = None, progress: Progress = lambda step: None
) -> Reading:
    """Return what the compiler of `target` says of the train step of the project in `folder`.

    Raises RedcoError where the compiler is missing, the job does not go with the project, or the
    project's own code is at fault.
    """
    (outcome,) = compile_steps(folder, target, [job or Job()], progress)
    if isinstance(outcome, RedcoError):
        raise outcome
    return outcome


def compile_steps(
    folder: Path, target: Target, jobs: Iterable[Job], progress: Progress = lambda step: None
) -> Iterator[Reading | RedcoError]:
    """Yield what the compiler says of each of several jobs, as it comes: a Reading, or what is wrong with it.

    One process compiles them all, so that what takes seconds to import is imported once. Raises
    RedcoError where it ends before its last job.
    """
    root = find_root(folder).resolve()
    every = list(jobs)
    task = {
        "folder": str(root),
        "package": package_name(read_manifest(root)[0].request["name"]),
        "target": target.name,
        "jobs": [asdict(job) for job in every],
    }
    env = environment(target.hardware.platform)
    progress("starting the compiler")
    # What the compiler writes beside goes with the folder, also where it is killed.
    with temporary_folder() as scratch, open(scratch / "output", "w+b") as output:
        answers, child = _start(task, root, env | {"TMPDIR": str(scratch)}, output)
        try:
            left = len(every)
            for answer in map(json.loads, answers):
                if "progress" in answer:
                    progress(answer["progress"])
                    continue
                left -= 1
                yield outcome_of(answer)
            if left and child.wait() is not None:
                raise _died(target, child.returncode, output)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            answers.close()


def outcome_of(answer: dict[str, Any]) -> Reading | RedcoError:
    """Return what a line of the process says."""
    if "error" in answer:
        return RedcoError(**answer["error"])
    return Reading.from_dict(answer["reading"])


def _start(
    task: dict[str, Any], root: Path, env: dict[str, str], output: BinaryIO
) -> tuple[TextIO, subprocess.Popen[bytes]]:
    """Start the process, and return its answers and itself.

    Its end of the pipe is closed here, so that what it writes has an end.
    """
    read_end, write_end = os.pipe()
    # -P: not the folder that it runs in, whose modules could have the names of installed ones.
    command = [sys.executable, "-P", "-m", CHILD]
    answers = os.fdopen(read_end)
    try:
        child = subprocess.Popen(
            [*command, json.dumps(task | {"out": write_end})],
            cwd=root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[write_end],
            process_group=0,
        )
    except BaseException:
        answers.close()
        raise
    finally:
        os.close(write_end)
    return answers, child


def _died(target: Target, code: int, output: BinaryIO) -> RedcoError:
    """Return what to say of a process that ended before its last job: the end of what it printed."""
    output.seek(0)
    text = " ".join(output.read().decode(errors="replace").split())
    if flag := UNKNOWN_FLAG.search(text):
        what = f"the compiler for {target.name} has no flag {flag[2]}"
        return RedcoError(flag[1], what, f"leave it out of {flag[1]}, or mend it there")
    text = text[-LAST_WORDS:]
    how = (
        "was killed, for want of memory perhaps"
        if code == -signal.SIGKILL
        else f"ended with {code}"
    )
    what = f"the compiler {how} and said: {text or 'nothing'}"
    return RedcoError(f"--hardware {target.name}", what, "try fewer devices, or a smaller --batch")
