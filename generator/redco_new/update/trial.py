"""The smoke test of a merged project: it is imported, and one step is taken on the CPU."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from redco_new.errors import Refusal
from redco_new.update.mirror import scratch, told

STEP = Path(__file__).with_name("trial_step.py")
EXAMPLES_SECONDS = 60
TRIAL_SECONDS = 600
LAST_WORDS = 300  # characters of what the project printed
LOOK = "nothing was written: `redco update --diff` shows what was merged; change yours to fit it"
FAILED = "merged, it does not run"


def try_out(
    project: Path,
    package: str,
    mesh: Mapping[str, int],
    progress: Callable[[str], None] = lambda step: None,
) -> list[str]:
    """Import the project in the folder `project`, and take one step of its preset tiny with it.

    project: a mirror: what its code writes stays there.  package: its import name.
    mesh: of the project's tests, axis -> size, on as many virtual CPU devices.
    Returns notes of what was not tried: what `examples` cannot read here is no fault of the merge.
    Raises Refusal if the project does not run, and RedcoError if the disk is full.
    """
    progress(f"trying one step on {math.prod(mesh.values())} virtual devices")
    with scratch() as folder:
        found = run_step(project, package, mesh, folder)
    if "error" in found:
        refuse(found["where"] or package, found["error"], remedy(project, found["missing"] or ""))
    return [f"one step was not tried: {found['note']}"] if found["note"] else []


def run_step(project: Path, package: str, mesh: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """What trial_step.py reports. Raises Refusal if it does not come to that."""
    report, output = folder / "report.json", folder / "output"
    job = {
        "project": str(project),
        "package": package,
        "mesh": dict(mesh),
        "seconds": EXAMPLES_SECONDS,
        "report": str(report),
    }
    with started(project, json.dumps(job), output) as child:
        try:
            code = child.wait(TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            todo = "make the preset tiny in config.py smaller"
            refuse(package, f"one step takes more than {TRIAL_SECONDS} s", todo)
    if report.exists():
        return json.loads(report.read_text())
    said = output.read_text(errors="replace").replace(f"{project}{os.sep}", "")
    said = " ".join(said.split())[-LAST_WORDS:]
    refuse(package, f"Python ended with {code} and said: {said or 'nothing'}", LOOK)


@contextmanager
def started(project: Path, job: str, output: Path) -> Iterator[subprocess.Popen]:
    """The program that takes the step; it and all that it started are ended on leaving."""
    # -P: not the folder of the program, whose modules could have the names of the user's.
    with told(), open(output, "wb") as said:
        child = subprocess.Popen(
            [sys.executable, "-P", str(STEP), job],
            cwd=project,
            env=environment(project),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def environment(project: Path) -> dict[str, str]:
    """That of this process, with the project before what is installed, and on the CPU."""
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        "PYTHONPATH": f"{project}{os.pathsep}{path}" if path else str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",  # what it prints before it dies is seen
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles in half the time
    }


def remedy(project: Path, missing: str) -> str:
    """What to do about an error. missing: the module that it could not import, or ""."""
    top = missing.partition(".")[0]
    if not top or (project / top).exists() or (project / f"{top}.py").exists():
        return LOOK
    return (
        f"install what the project needs where redco runs ({sys.prefix}): pip install -e . in its "
        f"folder, and {top} if pyproject.toml does not name it"
    )


def refuse(where: str, what: str, todo: str) -> NoReturn:
    raise Refusal(where, f"{FAILED}: {what}", todo)
