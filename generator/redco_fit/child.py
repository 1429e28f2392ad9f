"""Compiles steps of a project: compiling.py runs it in a process of its own, with the compilers on its path.

Its argument is JSON: folder, package, target, jobs, and out, a file descriptor. It writes a line of JSON
there for each job: {"progress"}, then {"reading"} or {"error": {where, what, todo}}.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn, TextIO

import numpy as np
from redco_new.errors import RedcoError
from redco_new.project.fault import in_one_line, locate_fault

from redco_fit.read import read_step
from redco_fit.reading import SCRATCH, Job
from redco_fit.step import compile_train_step
from redco_fit.target import Target, parse_target
from redco_fit.topology import devices_of

# What XLA says where a GPU before Ampere is to multiply bfloat16 as jax.nn.dot_product_attention does.
ALGORITHM = "Unsupported algorithm on the current device(s): ALG_DOT_BF16_BF16_F32"
NO_ROOM = os.strerror(errno.ENOSPC)  # libraries of C++ say it so too


def main() -> NoReturn:
    """Compile what the argument names, and tell of each as it is done."""
    task = json.loads(sys.argv.pop())
    with os.fdopen(task["out"], "w", buffering=1) as out:
        asked_for = parse_target(task["target"])
        target = asked_for.buildable
        try:
            devices = devices_of(target)
        except Exception as error:
            tell(out, error=failure(error, task, f"the compiler has no {target.name}"))
        else:
            for values in task["jobs"]:
                run_job(Job(**values), task, out, asked_for, target, devices)
    os._exit(0)  # whatever threads the user's code has


def run_job(
    job: Job, task: dict[str, Any], out: TextIO, asked_for: Target, target: Target, devices: Any
) -> None:
    """Compile one step, and tell what came of it."""
    folder = Path(task["folder"])
    tell(out, progress=f"compiling the step for {target.name}")
    try:
        step = compile_train_step(folder, task["package"], target, np.array(devices), job)
        tell(out, reading=read_step(step, asked_for, target).to_dict())
    except RedcoError as error:
        tell(out, error={"where": error.where, "what": error.what, "todo": error.todo})
    except BaseException as error:  # sys.exit in the user's code is one
        tell(out, error=failure(error, task, "its step does not compile"))


def failure(error: BaseException, task: dict[str, Any], what: str) -> dict[str, str]:
    """Return an error of the project's code, or of the compiler, as where, what and what to do."""
    text, folder = in_one_line(error, task["folder"]), task["folder"]
    if NO_ROOM in text:
        what = f"the compiler has no room in {Path(tempfile.gettempdir()).parent}: {NO_ROOM}"
        return {"where": SCRATCH, "what": what, "todo": "make room there, or set TMPDIR"}
    if ALGORITHM in text:
        what = f"its compiler has no products of bfloat16, which attention asks for ({ALGORITHM})"
        todo = "compute in float32: dtype in config.py, or --dtype float32 beside --model"
        return {"where": f"--hardware {task['target']}", "what": what, "todo": todo}
    where = locate_fault(error, folder) or task["package"]
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    todo = f"install it where redco runs: pip install {missing}" if missing else "mend that"
    return {"where": where, "what": f"{what}: {text}", "todo": todo}


def tell(out: TextIO, **content: Any) -> None:
    """Write one line."""
    print(json.dumps(content), file=out, flush=True)


if __name__ == "__main__":
    main()
