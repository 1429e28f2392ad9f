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
from redco_new.project.environment import project_environment
from redco_new.project.sandbox import sandbox_errors, temporary_folder

STEP = Path(__file__).with_name("trial_step.py")
# Limits beyond which nobody waits, not measurements: data that takes longer is a note, and a step
# of the preset tiny that does hangs.
EXAMPLES_SECONDS = 60
TRIAL_SECONDS = 600
LAST_WORDS = 300  # characters of what the project printed: its end, in one screen
LOOK = "nothing was written: `redco update --diff` shows what was merged; change yours to fit it"
FAILED = "merged, it does not run"


def try_one_step(
    project: Path,
    package: str,
    mesh: Mapping[str, int],
    progress: Callable[[str], None] = lambda step: None,
) -> list[str]:
    """Import the project in the folder `project`, and take one step of its preset tiny with it.

    project: a mirror: what its code writes stays there.
    package: its import name.
    mesh: of the project's tests, axis -> size, on as many virtual CPU devices.

    Returns notes of what was not tried: what `examples` cannot read here is no fault of the merge.
    Raises Refusal if the project does not run, and RedcoError if the disk is full.
    """
    progress(f"trying one step on {math.prod(mesh.values())} virtual devices")
    with temporary_folder() as folder:
        report = _run_step(project, package, mesh, folder)
    if "error" in report:
        missing = report["missing"] or ""
        _refuse(report["where"] or package, report["error"], _remedy(project, missing))
    return [f"one step was not tried: {report['note']}"] if report["note"] else []


def _run_step(project: Path, package: str, mesh: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """Return what trial_step.py reports. Raises Refusal if it does not come to that."""
    report, output = folder / "report.json", folder / "output"
    job = {
        "project": str(project),
        "package": package,
        "mesh": dict(mesh),
        "seconds": EXAMPLES_SECONDS,
        "report": str(report),
    }
    with _step_process(project, json.dumps(job), output) as child:
        try:
            code = child.wait(TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            todo = "make the preset tiny in config.py smaller"
            _refuse(package, f"one step takes more than {TRIAL_SECONDS} s", todo)
    if report.exists():
        content: dict[str, Any] = json.loads(report.read_text())
        return content
    text = output.read_text(errors="replace").replace(f"{project}{os.sep}", "")
    last_words = " ".join(text.split())[-LAST_WORDS:]
    _refuse(package, f"Python ended with {code} and said: {last_words or 'nothing'}", LOOK)


@contextmanager
def _step_process(project: Path, job: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program that takes the step; it and all that it started are ended on leaving."""
    # -P: not the folder of the program, whose modules could have the names of the user's.
    with sandbox_errors(), open(output, "wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-P", str(STEP), job],
            cwd=project,
            env=project_environment(project),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _remedy(project: Path, missing: str) -> str:
    """Return what to do about an error. missing: the module that it could not import, or ""."""
    top = missing.partition(".")[0]
    if not top or (project / top).exists() or (project / f"{top}.py").exists():
        return LOOK
    return (
        f"install what the project needs where redco runs ({sys.prefix}): pip install -e . in its "
        f"folder, and {top} if pyproject.toml does not name it"
    )


def _refuse(where: str, what: str, todo: str) -> NoReturn:
    raise Refusal(where, f"{FAILED}: {what}", todo)
