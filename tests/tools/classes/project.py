"""A project of a case as its user makes it: created, trained for three steps, its own tests passed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from classes.cases import Case
from compiled.targets import DEVICES, ROOT

STEPS = 3
# Not test_boot.py, which is the same for every model.
TESTS = ("tests/test_sharding.py", "tests/test_resume.py")
PASSED = re.compile(r"\b(\d+) passed")


@dataclass(frozen=True)
class Result:
    """What one command did: its exit code, its seconds, and what it said."""

    code: int
    seconds: float
    said: str

    @property
    def last(self) -> str:
        """The last line that it said."""
        return (self.said.strip().splitlines() or [""])[-1]


def folder() -> Path:
    """Where the packages are installed: $REDCO_CLASSES or .classes. Raises FileNotFoundError."""
    place = Path(os.environ.get("REDCO_CLASSES", ROOT / ".classes"))
    if not (place / "transformers").is_dir():
        raise FileNotFoundError(f"no transformers in {place}: run `make test-apart NAME=classes`")
    return place


def commit() -> str:
    """The last commit of what projects are written from; with the time, where files differ from it."""
    git = ("git", "-C", str(ROOT))
    sources = ("--", "generator", "runtime", "templates")
    last = subprocess.check_output([*git, "log", "-1", "--format=%h", *sources], text=True)
    changed = subprocess.check_output([*git, "status", "--porcelain", *sources], text=True)
    return last.strip() + (f" changed at {time.time():.0f}" if changed else "")


def run(place: Path, *command: str) -> Result:
    """Run a Python program in a folder, with the packages of the classes, on a CPU."""
    bonsai = os.environ.get("REDCO_BONSAI", "")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PYTHON"))}
    extra = {
        "PYTHONPATH": os.pathsep.join((str(folder()), str(ROOT / "generator"), bonsai)),
        "PYTHONWARNINGS": "ignore",  # of these packages, which are old
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(place / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=place,
        env=clean | extra,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Result(done.returncode, round(time.monotonic() - start, 1), done.stdout)


def create(case: Case, place: Path) -> Result:
    """Create the project `small` in `place`, for DEVICES shards."""
    flags = ("--recipe", case.recipe, "--example", f"{case.file}:example")
    program = "from redco_new.cli import new_main; new_main()"
    shards = ("--shards", str(DEVICES))
    return run(place, "-c", program, "small", "--model", case.cls, *flags, *shards)


def train(place: Path) -> tuple[Result, list[float]]:
    """Train the project in `place` for STEPS steps on DEVICES virtual devices; return the losses too."""
    result = run(
        place,
        *("-m", "small.train", "--preset", "tiny", "--steps", str(STEPS)),
        *("--virtual-devices", str(DEVICES), "--workdir", "runs/a"),
    )
    log = place / "runs" / "a" / "metrics.jsonl"
    lines = log.read_text().splitlines() if log.exists() else []
    losses = [row["loss"] for row in map(json.loads, lines) if "loss" in row]
    return result, losses


def check(place: Path) -> Result:
    """Run the tests of the project in `place`."""
    return run(place, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
