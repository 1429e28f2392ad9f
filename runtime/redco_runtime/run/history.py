"""What each start of a run ran with, a line in starts.jsonl: what it takes to make the run again."""

import json
import os
import shlex
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from ..base.contracts import Steps
from ..base.files import append_line, cut_lines, read_lines
from ..base.messages import show
from ..base.together import HOSTS
from .record import Run

FILE = "starts.jsonl"
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
VARIABLES = ("XLA_", "LIBTPU_", "JAX_", "NCCL_", "CUDA_VISIBLE")  # as those recorded begin
PATIENCE = 10.0  # seconds for git: a work tree on a slow disk


def record_start(run: Run, steps: Steps, step: int, rows: Mapping[str, list[int] | None]) -> None:
    """Add a line, by process 0; all call it. Print what differs from the start that was trained by before.

    rows: what the rows that are trained on, and those held out, are known by. Raises UserError where it cannot be written.
    """
    if jax.process_index() == 0:
        path = run.workdir / FILE
        cut_lines(path)
        before = read_lines(path)
        device = jax.devices()[0]
        record = run.record() | {
            "rows": rows,
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
        trained = [start for start in before if start["step"] < step]
        if trained and (line := changes(trained[-1], json.loads(json.dumps(record)))):
            show(f"warning: this run goes on otherwise than before: {line}")
        append_line(path, record)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return which settings and rows of a start are others than before, and what follows; "" where none is."""
    configs = before["config"], now["config"]
    old, new = ({(s, k): v for s in c for k, v in c[s].items()} for c in configs)
    names = [at for at, v in new.items() if old.get(at, v) != v and at[1] != "steps"]
    rows = [k for k, one in before.get("rows", {}).items() if one != now["rows"][k]]
    words = [f"--{at[1].replace('_', '-')} was {old[at]} and is {new[at]}" for at in names]
    for k in rows:
        one, other = ((x["rows"][k] or ["uncounted"])[0] for x in (before, now))
        words.append(f"the {k} rows were {one} and are {other} others")
    if rows or {("train", "seed"), ("train", "batch_size")} & {*names}:
        words.append(
            "some rows come again and some never, since the order is as if it had always been so"
        )
    if "held-out" in rows:
        words.append(
            "held-out losses are of other rows, and rows held out before may be trained on"
        )
    return "; ".join(words)


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
