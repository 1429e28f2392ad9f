"""The stopwatch around a side's training step. Both sides are measured by this file alone."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from collectives import collectives
from sizes import COMPILING, WARM_UP, Sizes, calls

_TRACE = "/jax/core/compile/jaxpr_trace_duration"
_LOWER = "/jax/core/compile/jaxpr_to_mlir_module_duration"
_XLA = "/jax/core/compile/backend_compile_duration"


class Recorder:
    """Times each call of a step until its results are there, and reads the process's memory.

    Needs Linux: the peaks are VmHWM of /proc/self, which, unlike ru_maxrss, knows nothing of the
    parent process and can be set back between the phases.
    """

    def __init__(self, sizes: Sizes):
        self._sizes = sizes
        self._seconds: list[float] = []
        self._cpu_seconds: list[float] = []
        self._losses: list[float] = []
        self._events: dict[str, list[float]] = {}  # of the call that runs: event -> seconds
        self._compiles: list[dict[str, list[float]]] = []  # the events of each call that compiled
        self._peaks: dict[str, int] = {}
        self._born = time.perf_counter()
        self._setup_seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._on_duration)

    def call(self, step: Callable, loss: Callable[[Any], jax.Array], *arguments: Any) -> Any:
        """Calls step(*arguments) once, times it to the end, keeps loss(outputs), returns outputs."""
        if not self._seconds:
            self._close_phase("setup")
            self._setup_seconds = time.perf_counter() - self._born
        if len(self._seconds) == COMPILING + WARM_UP:
            self._close_phase("compile")
        self._events = {_TRACE: [], _LOWER: [], _XLA: []}
        cpu_start, start = time.process_time(), time.perf_counter()
        outputs = jax.block_until_ready(step(*arguments))
        self._seconds.append(time.perf_counter() - start)
        self._cpu_seconds.append(time.process_time() - cpu_start)
        self._keep_events()
        self._losses.append(float(loss(outputs)))
        return outputs

    def report(self, side: str, parameters: int, compiled: jax.stages.Compiled) -> dict[str, Any]:
        """The record of the run, one JSON object: seconds, bytes, counts.

        `compiled` is the step as it ran in the timed calls, `parameters` the number of weights.
        Raises RuntimeError if the step was called too few or many times or did not train.
        """
        self._close_phase("steps")
        self._check()
        steady = self._seconds[-self._sizes.steps :]
        memory = compiled.memory_analysis()
        return {
            "side": side,
            "jax": jax.__version__,
            "parameters": parameters,
            "loss_first": self._losses[0],
            "loss_last": self._losses[-1],
            "step_seconds": statistics.median(steady),
            "step_seconds_least": min(steady),
            "step_cpu_seconds": self._step_cpu_seconds(),
            "step_cpu_seconds_least": min(self._cpu_seconds[-self._sizes.steps :]),
            "setup_seconds": self._setup_seconds,
            "first_calls_seconds": sum(self._seconds[:COMPILING]),
            **self._compile_times(),
            "peak_bytes": max(self._peaks.values()),
            **{f"peak_bytes_{phase}": peak for phase, peak in self._peaks.items()},
            "device_state_bytes": memory.argument_size_in_bytes,
            "device_temporary_bytes": memory.temp_size_in_bytes,
            **collectives(compiled.as_text(), 4 * self._sizes.B * self._sizes.S * self._sizes.D),
        }

    def _step_cpu_seconds(self) -> float:
        return statistics.median(self._cpu_seconds[-self._sizes.steps :])

    def _on_duration(self, event: str, seconds: float, **labels: Any) -> None:
        if event in self._events:
            self._events[event].append(seconds)

    def _keep_events(self) -> None:
        if self._events[_XLA]:
            self._compiles.append(self._events)
            if len(self._seconds) > COMPILING:
                raise RuntimeError(f"call {len(self._seconds)} compiled: its time is no step time")
        self._events = {}

    def _compile_times(self) -> dict[str, int | float]:
        # The trace of the step contains those of the functions in it, so only the longest counts.
        trace = sum(max(events[_TRACE]) for events in self._compiles)
        lower = sum(sum(events[_LOWER]) for events in self._compiles)
        xla = sum(sum(events[_XLA]) for events in self._compiles)
        return {
            "compile_seconds": trace + lower + xla,
            "compile_cpu_seconds": sum(self._cpu_seconds[:COMPILING])
            - COMPILING * self._step_cpu_seconds(),
            "trace_seconds": trace,
            "lower_seconds": lower,
            "xla_seconds": xla,
            "compiles": len(self._compiles),
        }

    def _close_phase(self, phase: str) -> None:
        self._peaks[phase] = _peak_bytes()
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from the memory in use

    def _check(self) -> None:
        if len(self._seconds) != calls(self._sizes):
            raise RuntimeError(f"{len(self._seconds)} calls, {calls(self._sizes)} were asked for")
        untrained = math.log(self._sizes.V)
        if abs(self._losses[0] - untrained) > 0.5 or not math.isfinite(self._losses[-1]):
            raise RuntimeError(
                f"loss {self._losses[0]:.3f} at first and {self._losses[-1]:.3f} at last; "
                f"an untrained model has ln V = {untrained:.3f}"
            )


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
