"""Processes that measure a project, each of its own group, of which nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redco_new.project.environment import QUICK, project_environment

SECONDS = 600  # of a process, beyond which nobody waits: a step of the preset tiny that takes longer hangs
CACHE_BYTES = 1 << 30  # of compiled programs: a hundred checks
LAST_WORDS = 300  # characters of what a process printed: its end
# An order in which devices do not wait for each other where a program is read back.
ORDER = "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
CHILD = Path(__file__).with_name("measure") / "child.py"

Lines = list[dict[str, Any]]
Progress = Callable[[str], None]


class Children:
    """The processes of one check. Leaving ends those that run."""

    def __init__(self, project: Path, folder: Path) -> None:
        self._project, self._folder = project, folder
        self._running = set[subprocess.Popen[bytes]]()
        self._lock, self._over = threading.Lock(), False

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over = True
            for child in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)

    def measure(self, package: str, part: str, progress: Progress) -> Lines:
        """Return what a part of measure/ tells of the project; where it died, that, as a fault of `runs`."""
        files = self._folder / part
        files.mkdir()
        until = time.monotonic() + SECONDS
        read_end, write_end = os.pipe()
        job = {"project": str(self._project), "package": package, "part": part}
        task = json.dumps({**job, "folder": str(files), "out": write_end})
        # -P: not the folder of the program, whose modules could have the names of the user's.
        command = [sys.executable, "-P", str(CHILD), task]
        with os.fdopen(read_end) as answers:
            try:
                running = self._run(command, files / "output", pass_fds=[write_end])
                with running as child:
                    os.close(write_end)
                    write_end = -1
                    lines = [*_tell(map(json.loads, answers), progress)]
                    code = child.wait()
            finally:
                if write_end >= 0:
                    os.close(write_end)
        if not any(line.get("done") for line in lines):
            at = next((line["at"] for line in reversed(lines) if "at" in line), "starting")
            words = _last_words(files / "output") or "nothing"
            ended = (
                f"Python ended with {code}" if time.monotonic() < until else f"{SECONDS} s are over"
            )
            what = f"{at}: {ended} and said: {words}"
            lines.append({"fault": "runs", "where": package, "what": what})
        return lines

    def test(self, arguments: list[str], report: Path) -> tuple[int, str]:
        """Return the exit code of pytest in the project, and the end of what it printed."""
        output = self._folder / "tests"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        with self._run([*command, f"--junitxml={report}", *arguments], output) as child:
            return child.wait(), _last_words(output)

    @contextmanager
    def _run(
        self, command: list[str], output: Path, pass_fds: Sequence[int] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process of the project, with a limit of time; it and all that it started are ended on leaving."""
        with self._lock, open(output, "wb") as out:
            if self._over:
                raise KeyboardInterrupt
            child = subprocess.Popen(
                command,
                cwd=self._project,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                process_group=0,
            )
            self._running.add(child)
        timer = threading.Timer(SECONDS, child.kill)
        timer.start()
        try:
            yield child
        finally:
            timer.cancel()
            with self._lock:
                self._running.discard(child)
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _environment(self) -> Mapping[str, str]:
        """Return that of a process of the project, which keeps what it compiled."""
        return project_environment(self._project) | {
            "XLA_FLAGS": f"{QUICK} {ORDER}",
            # What an edit leaves as it is was compiled by the last check.
            "JAX_COMPILATION_CACHE_DIR": str(cache_folder()),
            "JAX_COMPILATION_CACHE_MAX_SIZE": str(CACHE_BYTES),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
            "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "-1",  # or the lines of the model are not among them
        }


def cache_folder() -> Path:
    """Return where checks keep what they compiled."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "redco" / "check"


def _tell(lines: Iterator[dict[str, Any]], progress: Progress) -> Iterator[dict[str, Any]]:
    for line in lines:
        if "at" in line:
            progress(line["at"])
        yield line


def _last_words(output: Path) -> str:
    return " ".join(output.read_text(errors="replace").split())[-LAST_WORDS:]
