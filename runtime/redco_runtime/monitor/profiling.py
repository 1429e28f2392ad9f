"""The trace of some steps, by jax.profiler: what the host and the devices do, for xprof and TensorBoard."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax

from ..base.messages import UserError


def parse_steps(text: str, total: int) -> range:
    """Return the steps (from 1) of "10:13", which has both; none of "". Raises UserError."""
    if not text:
        return range(0)
    match = re.fullmatch(r"(\d+):(\d+)", text)
    first, last = map(int, match.groups()) if match else (0, 0)
    if not 1 <= first <= last:
        todo = "give the first and the last, as 10:13"
        raise UserError(f"--profile: {text!r} is no span of steps: {todo}")
    if last > total:
        raise UserError(f"--profile: {text} is more than the {total} --steps of the run")
    return range(first, last + 1)


class Profile(AbstractContextManager["Profile"]):
    """Called with each step before it is made; each process writes a folder of its own.

    A run that goes on within these steps traces the rest of them.
    """

    def __init__(self, steps: range, workdir: Path, say: Callable[[str], None]) -> None:
        self._steps, self._say, self._tracing = steps, say, False
        self._folder = workdir / "profile" / f"process-{jax.process_index()}"

    def __call__(self, step: int, state: Any) -> None:
        """Start or end the trace; `state` is that of the step before, which is waited for then."""
        if (step in self._steps) != self._tracing:
            jax.block_until_ready(state)
            self._stop() if self._tracing else self._start()

    def __exit__(self, *_: object) -> None:
        if self._tracing:
            self._stop()

    def _start(self) -> None:
        jax.profiler.start_trace(self._folder)
        self._tracing = True

    def _stop(self) -> None:
        self._tracing = False
        try:
            jax.profiler.stop_trace()
        except Exception as error:  # a trace is not worth a run
            self._say(f"note: no profile in {self._folder}: {error}")
        else:
            self._say(f"profile: {self._folder}")
