"""What each start of a run ran with, a line in starts.jsonl: what it takes to make the run again."""

import os
import shlex
import socket
import subprocess
import sys
import time
import uuid
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from ..base.contracts import Steps
from ..base.json_lines import append_line, cut_lines, read_lines
from ..base.together import HOSTS
from .record import Run

FILE = "starts.jsonl"
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
# How the names of those recorded begin.
VARIABLES = ("XLA_", "LIBTPU_", "JAX_", "NCCL_", "CUDA_VISIBLE")
PATIENCE = 10.0  # seconds for git: a work tree on a slow disk


def record_start(run: Run, steps: Steps, step: int) -> None:
    """Add a line, by process 0; all call it. Raises UserError where it cannot be written."""
    if jax.process_index() == 0:
        path = run.workdir / FILE
        cut_lines(path)
        before = read_lines(path)
        device = jax.devices()[0]
        record = run.record() | {
            "id": (before and before[0].get("id")) or uuid.uuid4().hex[:8],
            "time": round(time.time(), 3),
            "step": step,
            "command": shlex.join(sys.orig_argv),
            "folder": os.getcwd(),
            "versions": _versions(type(run.config).__module__.partition(".")[0]),
            "devices": {"kind": device.device_kind, "count": jax.device_count()},
            "hosts": HOSTS if jax.process_count() > 1 else [socket.gethostname()],
            "git": _git(Path(__file__).parents[1]),
            "environment": {k: v for k, v in os.environ.items() if k.startswith(VARIABLES)},
            "compiler_options": steps.options,
        }
        append_line(path, record)


def _versions(package: str) -> dict[str, str | None]:
    """Return the version of Python and of each package; None for one that is not installed."""
    versions: dict[str, str | None] = {"python": sys.version.split()[0]}
    for name in (*PACKAGES, package):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _git(folder: Path) -> dict[str, Any] | None:
    """Return the commit of a folder, and whether a file of it was changed since; None for no commit."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "-uno"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return None
    notes = [line for line in done.stdout.splitlines() if line.startswith("# ")]
    (commit,) = [line.split()[2] for line in notes if line.startswith("# branch.oid ")] or [""]
    changed = len(done.stdout.splitlines()) > len(notes)
    return {"commit": commit, "dirty": changed} if commit.isalnum() else None
