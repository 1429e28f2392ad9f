"""The train step of an emitted project, at full size, compiled for devices that are not here, as `redco fit` does.

Runs in the environment of targets.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compiled.remembered import remembered
from redco_fit import step as fit
from redco_fit.reading import Job
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
    with remembering():
        step = fit.compile_train_step(folder, package, target, devices_of(target), job)
    assert not step.refused, step.refused
    peak = step.memory.argument_size_in_bytes + step.memory.temp_size_in_bytes
    return Compiled(step.text, peak, step.built.shapes, step.config.model)


@contextmanager
def remembering() -> Iterator[None]:
    """Let `redco fit` compile nothing that a former run of the tests has compiled."""
    compile_ = fit._compile

    def of(lowered: Any, tpu: bool) -> tuple[str, Any, str]:
        def compiled() -> tuple[str, dict[str, int], str]:
            text, memory, refused = compile_(lowered, tpu)
            sizes = [name for name in dir(memory) if name.endswith("_size_in_bytes")]
            return text, {name: getattr(memory, name) for name in sizes}, refused

        text, sizes, refused = remembered(lowered, compiled)
        return text, SimpleNamespace(**sizes) if sizes else None, refused

    fit._compile = of
    try:
        yield
    finally:
        fit._compile = compile_
