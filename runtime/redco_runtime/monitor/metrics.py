"""Metrics: a thread fetches, writes and shows them, and tells loggers; the training loop waits for no value."""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any

import jax
from tqdm import tqdm

from ..base.messages import UserError, feature, print_once
from ..base.files import append_line, cut_lines, path_of
from ..run.record import Run

SECONDS_BETWEEN_LINES = 5.0  # where there is no bar: a log file of a day stays readable
RECENT = 0.2  # share of the last line in the time of a step by which what is left is estimated
BAR = "{percentage:3.0f}%|{bar:20}| {n_fmt}/{total_fmt} {elapsed}{postfix}"  # tqdm's, and our estimate

# FLOP/s of one JAX device: bf16, dense (data sheets give twice that for sparse on GPUs).
# TPU: cloud.google.com/tpu/docs, page of each version; v3 and 7x have two devices a chip.
# GPU: data sheet of each product at nvidia.com.
PEAK_FLOPS = {
    "TPU v3": 61.5e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
    "TPU7x": 1153.5e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA L4": 121e12,
    "NVIDIA L40S": 362e12,
    "NVIDIA GeForce RTX 3090": 71e12,
    "NVIDIA GeForce RTX 4090": 165.2e12,
    "NVIDIA H100 80GB HBM3": 989.4e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA GH200 480GB": 989.4e12,
    "NVIDIA H200": 989.4e12,
    "NVIDIA B200": 2250e12,
}
Values = Mapping[str, float | str]  # numbers, and texts, by name
Logger = Callable[[int, Values], None]  # of the step; what is to be done at the end is its `close`

PATIENCE = 10.0  # seconds for what is left at the end: after a signal all have to leave within 15

TRACKERS = ("tensorboard", "wandb", "trackio")  # that trackers.py has, where they were asked for


class Metrics:
    """Appends one JSON object a line to workdir/metrics.jsonl and shows the progress.

    Lines of steps after `start`, left by a run that was stopped, are cut off. Only process 0 writes
    and shows, by default. Raises UserError for what cannot be written.
    total, start: optimizer steps of the whole run, and those done before now.
    unit: what the throughput is counted in, a plural; FLOPs are those of the global batch.
    loggers: called with what is logged, by the writer.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        total: int,
        start: int,
        unit: str,
        flops_per_step: float,
        writer: bool | None = None,
    ) -> None:
        self.path = path_of(workdir) / "metrics.jsonl"
        self.loggers = Loggers(self.say)
        self._total, self._unit, self._flops = total, unit, flops_per_step
        self._peak = PEAK_FLOPS.get(jax.devices()[0].device_kind, math.nan) * jax.device_count()
        self._last_time = (start, time.perf_counter())
        self._last_count = (start, 0.0)
        self._usual = math.nan  # seconds of a step, the last ones above all
        self._next_line = 0.0
        self._writer = jax.process_index() == 0 if writer is None else writer
        if self._writer:
            cut_lines(self.path, start)
            # No bar where stderr is not a terminal: that is what disable=None says.
            own = {"dynamic_ncols": True, "disable": None, "bar_format": BAR}
            self._bar = tqdm(total=total, initial=start, **own)
            self._thread = ThreadPoolExecutor(1, "metrics")
            self._tasks: list[Future[None]] = []

    def log(self, step: int, values: Mapping[str, jax.Array], count: float) -> None:
        """Take the scalars of `step` (steps done, so from 1) and return at once.

        Adds step_seconds, <unit>_per_second, mfu (0..1) and memory_gib (the fullest device of this
        process); None where unknown. Raises what an earlier call ran into.
        count: in `unit`, of all steps of this run.
        """
        in_order = dict(sorted(values.items(), key=lambda item: item[0] != "loss"))
        self._do_later(self._record, step, in_order, count)

    def evaluated(
        self,
        step: int,
        loss: float | None,
        scores: Mapping[str, float] = MappingProxyType({}),
        samples: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Show what held-out examples gave after `step`, and append it to eval.jsonl.

        The time that it took is no step's.
        loss: None where none are held out. samples: prompts, and what became of them.
        """
        self._do_later(setattr, self, "_last_time", (step, time.perf_counter()))
        if self._writer:
            path = self.path.with_name("eval.jsonl")
            cut_lines(path, step - 1)
            append_line(path, {"step": step, "loss": loss, **scores})
            values = {**({} if loss is None else {"loss": loss}), **scores}
            held_out = {f"eval_{name}": value for name, value in values.items()}
            texts = {f"sample/{prompt}": text for prompt, text in samples}
            self._do_later(self.loggers.tell, step, {**held_out, **texts})
            shown = "".join(f"  {name} {value:.4f}" for name, value in scores.items())
            number = "none" if loss is None else f"{loss:.4f}"
            self.say(f"step {step}/{self._total}  held-out loss {number}{shown}")
            for prompt, text in samples:
                self.say(f"  {prompt!r} -> {text!r}")

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._writer:
            self._bar.write(text)
            sys.stdout.flush()

    def close(self) -> None:
        """Return when all is written. Raises as `log`."""
        if self._writer:
            self._thread.shutdown()
            self.loggers.close()
            self._bar.close()
            for task in self._tasks:
                task.result()

    def _do_later(self, task: Callable[..., None], *args: Any) -> None:
        if self._writer:
            while self._tasks and self._tasks[0].done():
                self._tasks.pop(0).result()
            self._tasks.append(self._thread.submit(task, *args))

    def _record(self, step: int, values: dict[str, jax.Array], count: float) -> None:
        scalars = {name: float(jax.device_get(value)) for name, value in values.items()}
        rates = self._rates(step, count, time.perf_counter())
        append_line(self.path, {"step": step} | scalars | rates)
        shown = scalars | {name: rate for name, rate in rates.items() if not math.isnan(rate)}
        text = self._text(step, scalars, rates)
        self._bar.n = step
        self._bar.set_postfix_str(text)
        if self._bar.disable and (time.monotonic() >= self._next_line or step == self._total):
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            self.say(f"step {step}/{self._total}  {text}")
        self.loggers.tell(step, shown)

    def _text(self, step: int, scalars: dict[str, float], rates: dict[str, float]) -> str:
        """Return the loss, how fast it goes, how long it takes still, and the other numbers."""
        seconds, amount, mfu, memory = rates.values()
        if not math.isnan(seconds):
            before = seconds if math.isnan(self._usual) else self._usual
            self._usual = before + (seconds - before) * RECENT
        left = 0 if math.isnan(seconds) else self._usual * (self._total - step)
        pace = [
            (amount, f"{amount:,.0f} {self._unit}/s"),
            (mfu, f"MFU {mfu:.1%}"),
            (seconds, f"{tqdm.format_interval(left)} left"),
            (seconds, f"{seconds:.3g} s/step"),
            (memory, f"{memory:.1f} GiB"),
        ]
        parts = [f"{name} {value:.6g}" for name, value in scalars.items()]
        parts[1:1] = [text for value, text in pace if not math.isnan(value)]
        return "  ".join(parts)

    def _rates(self, step: int, count: float, now: float) -> dict[str, float]:
        """Return figures over the steps since the last call; NaN where unknown."""
        (last_step, last), self._last_time = self._last_time, (step, now)
        seconds = (now - last) / (step - last_step) if step > last_step else math.nan
        # An evaluation begins the time anew, and not the count.
        (last_step, last_count), self._last_count = self._last_count, (step, count)
        amount = (count - last_count) / (step - last_step) if step > last_step else math.nan
        stats = [device.memory_stats() or {} for device in jax.local_devices()]
        return {
            "step_seconds": seconds,
            f"{self._unit}_per_second": amount / seconds,
            "mfu": self._flops / seconds / self._peak,
            "memory_gib": max(stat.get("bytes_in_use", math.nan) for stat in stats) / 2**30,
        }


class Loggers(list[Logger]):
    """Calls loggers in a thread of their own: none can fail a run, or hold it up.

    say: prints a line, of one that raises, which is left out from there on.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._queue = say, SimpleQueue[tuple[int, Values] | None]()
        self._thread = Thread(target=self._run, daemon=True)

    def tell(self, step: int, values: Values) -> None:
        """Take what is to be logged, and return at once."""
        if self and not self._thread.is_alive():
            self._thread.start()
        self._queue.put((step, values))

    def close(self) -> None:
        """Wait until all is logged, for a while."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            late = f"loggers have not ended within {PATIENCE:.0f} s"
            self._say(f"note: {late}; the run does not wait")

    def _run(self) -> None:
        while item := self._queue.get():
            for logger in [*self]:
                self._try(logger, partial(logger, *item))
        for logger in [*self]:
            self._try(logger, getattr(logger, "close", lambda: None))

    def _try(self, logger: Logger, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self.remove(logger)
            name = getattr(logger, "__name__", type(logger).__name__)
            self._say(f"note: logger {name} failed: {error!r}; the run goes on without it")


# name -> what opens it for a run that goes on after step `start`, in process 0, beside those of trackers.py. Add
# your own in config.py: LOGGERS["mine"] = lambda run, start: lambda step, values: print(step, values)
LOGGERS: dict[str, Callable[[Run, int], Logger]] = {}


def check_loggers(names: tuple[str, ...]) -> None:
    """Raise UserError for one that there is not, or that is not installed."""
    for name in names:
        if name not in (*LOGGERS, *TRACKERS):
            todo = f"choose some of {', '.join((*LOGGERS, *TRACKERS))}"
            raise UserError(f"--log: no logger is called {name}: {todo}")
        if name not in LOGGERS:
            _trackers(name).check_installed(name)


def open_loggers(run: Run, start: int) -> list[Logger]:
    """Return those that --log names, in process 0. One that fails is a line, and no logger."""
    loggers = []
    for name in run.config.train.log if jax.process_index() == 0 else ():
        try:
            own = LOGGERS.get(name) or _trackers(name).TRACKERS[name]
            loggers.append(own(run, start))
        except Exception as error:
            print_once(f"note: --log {name} failed: {error!r}; the run goes on without it")
    return loggers


def _trackers(name: str) -> Any:
    return feature("trackers", "monitor.trackers", f"--log {name}")
