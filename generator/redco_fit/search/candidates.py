"""What is tried for a model on a machine: a mesh with its options, and how a batch goes through it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redco_new.errors import RedcoError
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.models.program import Program
from redco_new.render.template import Template
from redco_new.request import Request
from redco_new.request.checks import HEADS, RING
from redco_new.request.mesh import RARE

from redco_plan import axes_of_entry

from redco_fit.search.estimate import estimate_step
from redco_fit.search.memory import LEAST, state_bytes
from redco_fit.search.model import Planned
from redco_fit.target import Target

# Times that estimates are off, mostly (tests/tools/tables/estimates.md).
OFF = 1.1


@dataclass(frozen=True)
class Trial:
    """A mesh with its options, and what came of it.

    mesh: axis -> devices.  zero, sequence_parallel: as the flags.  batch: examples of a step.
    ring: whether keys and values go around the devices of `context`.  micro_batches: into how many a batch goes.  repeats: as --stage-repeats of training.  mfu: products of the model, of the machine's peak.
    seconds: of a step; the least that it can be, where `peak` is 0.
    state: bytes of a device for state and gradients alone, exactly.
    peak: bytes of a device at most; where `state` is too much already, that. 0 where the mesh lost before that
    was of interest.
    saved: names of the arrays that a layer saves, where remat is fit.  parts: seconds by part, and by axis.
    reason: why it lost; "" for the one that is chosen.
    """

    mesh: Mapping[str, int]
    zero: int
    sequence_parallel: bool
    batch: int
    micro_batches: int = 1
    repeats: int = 1
    ring: bool = False
    seconds: float = 0.0
    state: int = 0
    peak: int = 0
    mfu: float = 0.0
    saved: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    @property
    def name(self) -> str:
        """As flags have it: data=2,fsdp=4 zero=1."""
        mesh = ",".join(f"{axis}={size}" for axis, size in self.mesh.items() if size > 1)
        options = [f"zero={self.zero}"] * (self.zero > 0)
        options += ["sequence-parallel"] * self.sequence_parallel
        options += [f"stage-repeats={self.repeats}"] * (self.repeats > 1)
        options += [f"context-attention={RING}"] * self.ring
        return " ".join([mesh or "data=1", *options])

    @property
    def pace(self) -> float:
        """Seconds of an example."""
        return self.seconds / self.batch

    @property
    def rank(self) -> float:
        """By which trials are compared: of an axis of RARE more than `pace`, which an estimate of it must be below."""
        return self.pace * (OFF if {*RARE} & {*self.mesh} else 1)

    @property
    def settings(self) -> str:
        """What training takes for it, as typed."""
        around = f" --stage-repeats {self.repeats}" if self.repeats > 1 else ""
        return f"--batch-size {self.batch} --micro-batches {self.micro_batches}{around}"

    @property
    def flags(self) -> dict[str, Any]:
        """What `redco update` takes for it."""
        mesh = ",".join(f"{axis}={size}" for axis, size in self.mesh.items())
        options = {"zero": self.zero, "sequence_parallel": self.sequence_parallel}
        return {"mesh": mesh, **options, "context_attention": self.context_attention}

    @property
    def context_attention(self) -> str:
        """As --context-attention has it."""
        return RING if self.ring else HEADS


class Planner:
    """Plans one model on the meshes of a machine; each mesh once."""

    def __init__(self, request: Request, template: Template, length: int | None):
        self.request, self.template, self.length = request, template, length
        self._plans: dict[str, Planned | None] = {}
        self._programs: dict[str, tuple[Program, bool]] = {}

    def plan(self, trial: Trial) -> Planned | None:
        """Return the model on a mesh; None where it cannot be split so."""
        key = repr((trial.mesh, trial.zero, trial.sequence_parallel, trial.ring))
        if key not in self._plans:
            self._plans[key] = self._plan(trial)
        return self._plans[key]

    def length_of(self, trials: Sequence[Trial]) -> int:
        """Return the tokens of an example, of trials that were priced."""
        return next(model.length for one in trials if (model := self.plan(one)) is not None)

    def _plan(self, trial: Trial) -> Planned | None:
        request = replace(
            self.request,
            mesh=dict(trial.mesh),
            zero=trial.zero,
            sequence_parallel=trial.sequence_parallel,
            context_attention=trial.context_attention,
        )
        try:
            program, causal = self._program(request)
            plan = plan_program(request, program)
        except RedcoError as error:
            split = trial.sequence_parallel or {*RARE} & {*trial.mesh}
            if error.where in ("--mesh", f"--context-attention {RING}"):
                return None
            if error.where.startswith("--shards"):
                return None
            if error.where == "--sequence-length" and split:  # which do not divide it
                return None
            raise
        split = {
            axis for spec in plan.partitions for entry in spec for axis in axes_of_entry(entry)
        }
        axes = [axis for axis in ("fsdp", *RARE) if request.mesh.get(axis, 1) > 1]
        if not {*axes} <= split:  # no dim divides: it would be `data`
            return None
        model = Planned(request, program, plan, causal, 0)
        model = replace(model, length=self.length or model.traced[1])
        return model if model.length % (model.token_parts // model.batch_parts) == 0 else None

    def _program(self, request: Request) -> tuple[Program, bool]:
        """Return the model's program, and whether it is causal: the same for all meshes that split layers, and rows, in as many."""
        rare = [request.mesh.get(axis) for axis in RARE]
        options = (request.sequence_parallel, request.context_attention)
        split = (request.devices, request.mesh["model"], *options, *rare)
        if (key := repr(split)) not in self._programs:
            design = read_model(request, self.template)
            self._programs[key] = (design.program(), design.recipe.continues)
        return self._programs[key]


def price(planner: Planner, target: Target, trial: Trial, exact: bool = True) -> Trial | None:
    """Return a trial with its seconds, and with its memory if `exact`; None where the mesh cannot have it."""
    model = planner.plan(trial)
    if model is None or trial.batch % (model.batch_parts * trial.micro_batches):
        return None
    if trial.repeats > 1:
        model = replace(model, repeats=trial.repeats)
    state = state_bytes(model, trial.micro_batches)
    if (
        exact and state > target.hardware.usable
    ):  # nothing else needs to be known, which takes a trace
        return replace(trial, seconds=trial.seconds or math.inf, state=state, peak=state)
    memory = None if exact else LEAST
    one = estimate_step(model, target, trial.batch, trial.micro_batches, memory=memory)
    seconds = target.hardware.step_seconds(one.bound_seconds)
    return replace(
        trial,
        seconds=seconds,
        state=state,
        peak=one.memory.peak,
        mfu=one.model_flops / target.hardware.flops[planner.request.dtype] / seconds,
        saved=one.memory.names,
        parts={**one.parts, **one.links, "exposed": one.exposed},
    )
