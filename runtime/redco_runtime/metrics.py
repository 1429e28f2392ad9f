"""Metrics: a thread fetches, writes and shows them; the training loop waits for no value."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import jax
from tqdm import tqdm

from redco_runtime.errors import UserError

SECONDS_BETWEEN_LINES = 5.0  # where there is no bar

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


class Metrics:
    """Appends one JSON object a line to workdir/metrics.jsonl and shows the progress.

    total, start: optimizer steps of the whole run, and those done before now; lines of later steps,
    left by a run that was stopped, are cut off. tokens_per_step and flops_per_step are those of the
    global batch. Only process 0 writes and shows, by default. Raises UserError.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        total: int,
        start: int,
        tokens_per_step: int,
        flops_per_step: float,
        writer: bool | None = None,
    ) -> None:
        self.path = Path(workdir) / "metrics.jsonl"
        self._total, self._tokens, self._flops = total, tokens_per_step, flops_per_step
        self._peak = PEAK_FLOPS.get(jax.devices()[0].device_kind, math.nan) * jax.device_count()
        self._last = (start, time.perf_counter())
        self._next_line = 0.0
        self._error: Exception | None = None
        self._writer = jax.process_index() == 0 if writer is None else writer
        if self._writer:
            with self._writing():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _cut(self.path, start)
                # Without a buffer, so that nothing is left to fail when the file is closed.
                self._file = open(self.path, "ab", buffering=0)
            # No bar where stderr is not a terminal: that is what disable=None says.
            self._bar = tqdm(total=total, initial=start, dynamic_ncols=True, disable=None)
            self._queue: SimpleQueue[tuple[int, dict[str, Any] | None] | None] = SimpleQueue()
            self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
            self._thread.start()

    def log(self, step: int, values: dict[str, jax.Array]) -> None:
        """Takes the scalars of `step` (steps done, so from 1) and returns at once.

        Adds step_seconds, tokens_per_second, mfu (0..1) and memory_gib (the fullest device of this
        process); None where unknown. In the file NaN and infinity are null too. Raises, once, what
        an earlier call ran into.
        """
        self._raise()
        if self._writer and self._thread.is_alive():
            self._queue.put((step, values))

    def evaluated(self, step: int, loss: float) -> None:
        """Shows the loss on the held-out examples after `step` and appends it to eval.jsonl.

        The time since the last step counts for no step.
        """
        self._raise()
        if self._writer:
            with self._writing(), open(self.path.with_name("eval.jsonl"), "a") as file:
                file.write(json.dumps({"step": step, "loss": loss}) + "\n")
            self._queue.put((step, None))
            self.say(f"step {step}/{self._total}  held-out loss {loss:.4f}")

    def say(self, text: str) -> None:
        """Prints a line, above the bar if there is one."""
        if self._writer:
            self._bar.write(text)
            sys.stdout.flush()

    def close(self) -> None:
        """Returns when all is written. Raises as `log`."""
        if self._writer:
            self._queue.put(None)
            self._thread.join()
            self._file.close()
            self._bar.close()
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            for step, values in iter(self._queue.get, None):
                if values is None:
                    self._last = (step, time.perf_counter())
                    continue
                fetched = map(float, jax.device_get(list(values.values())))
                record = {"step": step} | dict(zip(values, fetched, strict=True))
                record |= self._rates(step, time.perf_counter())
                self._write(record)
                self._show(record)
        except Exception as error:
            self._error = error

    def _rates(self, step: int, now: float) -> dict[str, float | None]:
        """Figures over the steps since the last call."""
        (last_step, last), self._last = self._last, (step, now)
        seconds = (now - last) / (step - last_step) if step > last_step else math.nan
        stats = [device.memory_stats() or {} for device in jax.local_devices()]
        rates = {
            "step_seconds": seconds,
            "tokens_per_second": self._tokens / seconds,
            "mfu": self._flops / seconds / self._peak,
            "memory_gib": max(each.get("bytes_in_use", math.nan) for each in stats) / 2**30,
        }
        return {name: None if math.isnan(rate) else rate for name, rate in rates.items()}

    def _write(self, record: dict[str, Any]) -> None:
        finite = {k: v if v is not None and math.isfinite(v) else None for k, v in record.items()}
        line = json.dumps(finite).encode() + b"\n"
        with self._writing():
            while line:
                line = line[self._file.write(line) :]

    def _show(self, record: dict[str, Any]) -> None:
        step = record["step"]
        known = {k: v for k, v in record.items() if v is not None and k != "step"}
        text = "  ".join(f"{name} {value:.6g}" for name, value in known.items())
        self._bar.n = step
        self._bar.set_postfix_str(text)
        if self._bar.disable and (time.monotonic() >= self._next_line or step == self._total):
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            self.say(f"step {step}/{self._total}  {text}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(
                f"cannot write {self.path}: {error.strerror}. "
                "Free space on that disk, or choose another --workdir."
            ) from error


def _cut(path: Path, start: int) -> None:
    """Drops the lines of steps after `start`, and a last line that a kill cut short."""
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    kept = [line for line in lines if line.endswith(b"\n") and json.loads(line)["step"] <= start]
    if kept != lines:
        beside = path.with_suffix(".tmp")
        beside.write_bytes(b"".join(kept))
        beside.replace(path)
