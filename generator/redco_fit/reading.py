"""What the compiler said of a step: plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCRATCH = "TMPDIR"  # at fault where a compiler has no room for its files, whatever it compiles


@dataclass(frozen=True)
class Job:
    """A step to compile: what differs from the project's preset `full`.

    mesh: axis -> devices, -1 for those that are left; {} for that of sharding.py.
    batch: examples of a step, over all devices.  length: tokens of an example.
    settings: fields of config.py by name, such as remat or micro_batches.
    """

    mesh: Mapping[str, int] = field(default_factory=dict)
    batch: int | None = None
    length: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent:
    """Collectives of one kind, over the same axes, for the same line of the model.

    kind: all-reduce and so on.  count: in a step.  bytes: of the whole arrays, all of them together.
    axis: names, with + between.  source: the line of the model.
    """

    kind: str
    count: int
    bytes: int
    axis: str
    source: str


@dataclass(frozen=True)
class Reading:
    """A train step as it was compiled; bytes, FLOPs and seconds are of one device, and of one step.

    target, compiled_for: as --hardware takes them; the second is the nearest that the compiler takes.
    devices, mesh: how many, and axis -> how many of them.
    batch, length: of the step, over all devices; length is 0 where examples have none.
    remat: what the layers save, by config.py, and which arrays that were.
    compile_seconds: of tracing, lowering and compiling.
    argument_bytes: state and batch.  output_bytes: what the step gives back.  temporary_bytes: what the step makes besides.  workspace_bytes: an
    allowance for attention kernels, whose own memory no compiler sees.  host_bytes: in the host's memory.
    peak_bytes: of the device, at most.  limit_bytes: what JAX has there for arrays.
    remat_bytes: temporaries beyond which XLA computes arrays again by itself; None where it does not, or that is not known.
    refused: the compiler's own words; "" if it compiled.
    memory: bytes by kind: parameters, optimizer, variables, batch, gradients, activations.
    flops: of products, as compiled.  coded_flops: of those, in 8 bits.  model_flops: of the model, nothing counted twice.
    seconds: of the roofline, by part: products, memory, and each axis of the mesh; exposed: of the
    collectives, what nothing is computed beside.
    step_seconds: an estimate of a step, of the share of the roofline's speed that steps reach.
    collectives: what is sent, in order of bytes.  notes: what else to know.
    """

    target: str
    compiled_for: str
    devices: int
    mesh: Mapping[str, int]
    batch: int
    length: int
    remat: str
    limit_bytes: int
    compile_seconds: float
    peak_bytes: int = 0
    argument_bytes: int = 0
    output_bytes: int = 0
    temporary_bytes: int = 0
    workspace_bytes: int = 0
    host_bytes: int = 0
    remat_bytes: int | None = None
    refused: str = ""
    memory: Mapping[str, int] = field(default_factory=dict)
    flops: float = 0.0
    coded_flops: float = 0.0
    model_flops: float = 0.0
    step_seconds: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    collectives: tuple[Sent, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def bound_seconds(self) -> float:
        """What no step can be below, by the roofline."""
        return sum(self.seconds[part] for part in ("products", "memory", "exposed"))

    @property
    def fits(self) -> bool:
        """Whether it compiled, and its peak is no more than the device has."""
        return not self.refused and self.peak_bytes <= self.limit_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, whether it fits first."""
        return {"fits": self.fits, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Reading:
        """Return what `to_dict` was made of."""
        fields = {k: v for k, v in values.items() if k != "fits"}
        sent = tuple(Sent(**one) for one in fields.pop("collectives"))
        return cls(**fields | {"collectives": sent, "notes": tuple(fields.pop("notes"))})
