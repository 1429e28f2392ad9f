"""What is run first of a project, on a laptop: its tests, its tiny preset, two processes; whatever its mesh is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from redco_new.render.values import Name
from redco_new.request.mesh import REST

DATA = "data"
# At most so many virtual devices in a project's own tests: a laptop compiles for 8 in seconds.
TEST_DEVICES = 8
TRIAL_DEVICES = 16  # of a first run: the batch of a preset tiny divides by that many


@dataclass(frozen=True)
class FirstRuns:
    """Meshes of few virtual devices, and flags of train.py for them.

    mesh, devices: of the tests: its axes, each a divisor of the real one, and how many devices that is.
    example: that mesh, as --mesh takes it.
    trial, trial_devices: the flags of one process, and how many devices: of its own mesh, or of that of the tests.
    two: the flags of two processes, each with all axes but `data`.
    """

    mesh: Mapping[Name, int]
    devices: int
    example: str
    trial: str
    trial_devices: int
    two: str

    @classmethod
    def of(cls, mesh: Mapping[str, int]) -> FirstRuns:
        """Return those of a project of that mesh, axis -> devices; `data` may be REST."""
        small, own = _small(mesh), math.prod(max(size, 1) for size in mesh.values())
        devices = math.prod(small.values())
        inner = {axis: size for axis, size in small.items() if axis != DATA}
        as_it_is = mesh == {**inner, DATA: REST}
        return cls(
            mesh=small,
            devices=devices,
            example=",".join(f"{axis}={size}" for axis, size in small.items()),
            trial=_flags({}, own) if own <= TRIAL_DEVICES else _flags(small, devices),
            trial_devices=own if own <= TRIAL_DEVICES else devices,
            two=_flags({} if as_it_is else {DATA: 2, **inner}, math.prod(inner.values())),
        )


def _small(mesh: Mapping[str, int]) -> dict[str, int]:
    """Return divisors of sizes, few devices together; two rows of data at least where `data` takes what is left."""
    sizes = {axis: 2 if size == REST else size for axis, size in mesh.items()}
    while math.prod(sizes.values()) > TEST_DEVICES:
        axis = max(sizes, key=lambda name: sizes[name])
        sizes[axis] //= next(k for k in range(2, sizes[axis] + 1) if sizes[axis] % k == 0)
    return sizes


def _flags(mesh: Mapping[str, int], devices: int) -> str:
    """Return the flags of a mesh of virtual devices; {}: that of sharding.py."""
    axes = ",".join(f"{axis}={size}" for axis, size in mesh.items() if size > 1)
    return f"{f'--mesh {axes} ' if axes else ''}--virtual-devices {devices}"
