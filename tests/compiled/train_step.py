"""The train step of an emitted project, at full size, compiled for devices that are not here, as `redco fit` does.

Runs in the environment of targets.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redco_fit.reading import Job
from redco_fit.step import compile_train_step
from redco_fit.target import Target
from redco_fit.topology import devices_of


@dataclass(frozen=True)
class Compiled:
    """A train step.

    text: of the program.  peak: bytes of each device at most.  params: shapes by path.
    model: the configuration of the model.
    """

    text: str
    peak: int
    params: Any
    model: Any


def compile_train(
    folder: Path,
    target: Target,
    axes: Mapping[str, int],
    rows: int,
    length: int,
    sizes: Mapping[str, Any],
    micro_batches: int = 1,
) -> Compiled:
    """Compile the step of the preset full of a project, `rows` examples of `length` tokens over all.

    axes: of the mesh; those that are left out have one device.  sizes: of the model, where others.
    """
    settings = {"max_positions": length, "micro_batches": micro_batches} | dict(sizes)
    package = folder.name.replace("-", "_")
    job = Job(axes, rows, length, settings)
    step = compile_train_step(folder, package, target, devices_of(target), job)
    assert not step.refused, step.refused
    peak = step.memory.argument_size_in_bytes + step.memory.temp_size_in_bytes
    return Compiled(step.text, peak, step.built.shapes, step.config.model)
