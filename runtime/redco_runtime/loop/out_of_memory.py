"""Out of memory on a device: what the step needs and has, and what to try, with what it would need then."""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager

import jax

from ..base.contracts import Batch, Steps
from ..base.messages import UserError, feature, listed, print_once
from ..base.progress import PROGRESS, ProgressBar
from ..base.together import wait_for_all
from ..base.state import TrainState
from ..cluster.rendezvous import NEEDS
from ..data.collating import asked_of
from ..layout.mesh import count_parts, memory_of
from ..layout.specs import gradient_size, size_on_device
from ..run.record import Run
from ..step.tables import tables_of

# What XLA:TPU says where a program does not fit, as in "temporaries (22.01G) exceeds": binary units.
TEMPORARY = re.compile(r"temporaries \(([\d.]+)([KMGT])\)")
GPU_SHARE = "XLA_PYTHON_CLIENT_MEM_FRACTION"
HINT = "redco fit --hardware NAME:DEVICES says what fits, there or elsewhere, before a run does"
NOTHING = "nothing_saveable"  # of --remat
UNITS = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}


class DeviceMemory(AbstractContextManager["DeviceMemory"]):
    """Explains where a device runs out of memory, in `with`: raises UserError with what to try."""

    def __init__(self, steps: Steps, run: Run) -> None:
        self._steps, self._run = steps, run
        self._temporary = 0  # bytes that the compiled step has at once, beside its arguments
        self.tables: dict[str, int] = {}  # of `tables_of` that step

    def compile(self, state: TrainState, batch: Batch) -> jax.stages.Compiled:
        """Return the train step, compiled for arrays like these."""
        PROGRESS.at("a compilation")
        print_once("compiling the train step")
        with ProgressBar("compiling the train step", shown=jax.process_index() == 0):
            with asked_of(batch):
                traced = self._steps.train.trace(state, batch)
            step = traced.lower().compile()
        self.tables = tables_of(traced.jaxpr, state, batch, self._steps.shapes)
        if analysis := step.memory_analysis():
            self._temporary = analysis.temp_size_in_bytes
        if (path := os.environ.get(NEEDS)) and jax.process_index() == 0:
            needs = feature("elastic", "cluster.fewer").Needs
            needs.of_step(self._steps, self._run.config.train, self._temporary).save(path)
        PROGRESS.at("a wait for the compilations of all")
        wait_for_all("the compilations")
        return step

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error):
            raise UserError(self._explain(str(error))) from error

    def _explain(self, message: str) -> str:
        mesh, settings = self._steps.batch.mesh, self._run.config.train
        if match := TEMPORARY.search(message):
            self._temporary = int(float(match[1]) * UNITS[match[2]])
        gradients = gradient_size(self._steps.state, settings.micro_batches)
        state, batch = size_on_device(self._steps.state), max(self._temporary - gradients, 0)
        device = mesh.devices.flat[0]
        has = memory_of(device)
        lines = [
            *([_line("it has", has)] if has else []),
            _line("a train step needs", state + gradients + batch),
            _line("  parameters and what the optimizer keeps", state),
            _line("  their gradients", gradients),
            _line("  what the rows of a batch take", batch),
        ]
        tries = [*self._tries(state, gradients, batch, has)]
        if device.platform == "gpu" and GPU_SHARE not in os.environ:
            without = "JAX has three quarters of a GPU without"
            tries.append(f"{GPU_SHARE}=.92 before the command: {without}")
        title = "Try one of these, or several; alone, it would then need about:"
        todo = "\n  ".join([title, *tries, HINT])
        kind = f"{device.device_kind} ({mesh.size} in the mesh)"
        return listed(f"out of memory on {kind}", lines, todo)

    def _tries(self, state: int, gradients: int, batch: int, has: int) -> Iterator[str]:
        """Yield a flag, what it costs, and what a step needs with it, of the bytes that each part of it takes."""
        config, shape = self._run.config, dict(self._steps.batch.mesh.shape)
        settings = config.train
        rows = settings.batch_size // count_parts(self._steps.batch) // settings.micro_batches
        # Before the step is compiled, the state alone was too much.
        factors = [factor for factor in range(2, rows + 1) if rows % factor == 0 and batch]
        fixed = state + gradients
        enough = [f for f in factors if has and fixed + batch // f <= has]
        for factor in (enough or factors[:: -1 if has else 1])[:1]:
            yield _line(f"--batch-size {settings.batch_size // factor}", fixed + batch // factor)
            parts, sums = settings.micro_batches * factor, gradient_size(self._steps.state, 2)
            what = f"--micro-batches {parts} (the same training, slower)"
            yield _line(what, state + sums + batch // factor)
        if batch and getattr(config.model, "remat", NOTHING) != NOTHING:
            yield f"--remat {NOTHING} (the same training, slower): less, by what is saved"
        where, left = "the same devices", batch
        if shape["data"] % 2 == 0:
            shape["data"] //= 2
        else:
            where, left = "twice the devices", batch // 2
        shape["fsdp"] *= 2
        axes = ",".join(f"{name}={size}" for name, size in shape.items())
        yield _line(f"--mesh {axes} (on {where})", fixed // 2 + left)


def _line(what: str, size: int) -> str:
    return f"{what:<58}{size / 1e9:8.1f} GB"
