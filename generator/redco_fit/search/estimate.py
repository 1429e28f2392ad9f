"""The roofline of a step, by its parts: an estimate, which ranks meshes; the machine's compiler has the last word."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from redco_plan import DATA, EXPERT, FSDP, predict_collectives

from redco_fit.compiled.hlo import Collective
from redco_fit.compiled.roofline import ATTENTION
from redco_fit.links import link_seconds
from redco_fit.search import experts
from redco_fit.search.memory import FIT, Memory, memory_of
from redco_fit.search.model import Planned
from redco_fit.search.work import Work, work_of
from redco_fit.target import Target

# What is not a product moves its arrays through memory. The three factors are least squares over the
# rooflines of 34 steps that XLA compiled for H100 (seven models, eight meshes, two remats; tests/tools/tables/estimates.md):
# of what products read and write, in a forward pass (a backward pass counts as two); of what layers save in a loop, which is
# written, sliced and copied; of the state, which the optimizer reads and writes.
TOUCHED, SAVED, STATE = 1.7, 7.0, 6.6
ACCUMULATED = 4  # times that a micro-batch reads or writes the sum of the gradients, and its own
SCORES = 8  # times that XLA's attention reads or writes the scores, forward and backward together
# Of the same steps: the share of the collectives of activations that nothing is computed beside; of the computing,
# what those of parameters hide behind; and the share of these that is never hidden: of the first and the last layer.
WAITED, HIDING, ENDS = 0.7, 0.4, 0.05
AGAIN = 0.5  # of a layer's two sums, the first is needed again where the layer is computed again
CAUSAL = 0.5  # of all pairs of positions
BACKWARD = 2.5  # products of attention's backward pass, for each two of the forward one (FlashAttention, 2022)


@dataclass(frozen=True)
class Estimate:
    """A step, by device.

    parts: seconds of products, attention, memory.  links: seconds of the collectives, by the axes they run over.
    exposed: of these, what nothing is computed beside.  model_flops: of the step, nothing counted twice.
    """

    memory: Memory
    parts: Mapping[str, float]
    links: Mapping[str, float]
    exposed: float
    model_flops: float

    @property
    def bound_seconds(self) -> float:
        """What no step can be below, by the roofline: as of a Reading of redco_fit."""
        return sum(self.parts.values()) + self.exposed


def estimate_step(
    model: Planned,
    target: Target,
    rows: int,
    micro_batches: int = 1,
    remat: str = FIT,
    memory: Memory | None = None,
) -> Estimate:
    """Return the estimate of a step of `rows` examples over all devices, in micro-batches one after the other.

    memory: where it is known or assumed; a trace of the gradients says it otherwise, which takes a second.
    """
    work = work_of(model, rows // micro_batches, target.hardware.platform)
    if memory is None:
        memory = memory_of(model, rows, micro_batches, remat, target.hardware.usable)
    parts = _computing(model, target, work, memory, micro_batches)
    computing = sum(parts.values())
    links, waiting = _sending(model, target, work, rows, micro_batches, memory.repeated, computing)
    if target.hardware.platform == "gpu" and memory.peak > target.hardware.usable:
        waiting = sum(links.values())  # XLA then keeps the order that takes least memory
    flops = work.flops + sum(one.flops for one in work.routed)
    whole = 3 * micro_batches * (flops + work.attention * (CAUSAL if model.causal else 1))
    return Estimate(memory, parts, links, waiting, whole)


def _computing(
    model: Planned, target: Target, work: Work, memory: Memory, micro_batches: int
) -> dict[str, float]:
    """Return the seconds of what a device computes, by part."""
    hardware, passes, dtype = target.hardware, 3.0, model.request.dtype
    peak = hardware.flops[dtype]
    attention = work.attention * (CAUSAL if model.causal else 1) * (1 + BACKWARD)
    attention += 0 if memory.attended else work.attention * (CAUSAL if model.causal else 1)
    moved = TOUCHED * work.touched * (passes + memory.repeated)
    tpu = hardware.platform == "tpu"
    if memory.in_loop or tpu:  # written out, layers copy nothing
        moved += SAVED * memory.layered
    fast = tpu or hardware.capability >= 8
    if not fast or dtype != "bfloat16":
        moved += SCORES * work.scores
    moved += ACCUMULATED * model.parameter_bytes if micro_batches > 1 else 0
    routed = sum(one.seconds(hardware, dtype, not memory.routed) for one in work.routed)
    whole = model.plan.mesh[FSDP] == 1
    rows = sum(one.moving(hardware, whole) for one in work.routed)
    state = STATE * (model.parameter_bytes + model.moment_bytes)
    return {
        "products": micro_batches * ((passes * work.flops + memory.again) / peak + routed),
        "attention": micro_batches * attention / peak / ATTENTION,
        "memory": (micro_batches * moved + state) / hardware.bandwidth + micro_batches * rows,
    }


def _sending(
    model: Planned,
    target: Target,
    work: Work,
    rows: int,
    micro_batches: int,
    repeated: float,
    computing: float,
) -> tuple[dict[str, float], float]:
    """Return the seconds of the collectives, by axes, and those of them that a device waits for.

    repeated: share of a layer that is computed again.  computing: seconds that a device computes.
    """
    plan, (traced_rows, traced_length) = model.plan, model.traced
    share = rows / traced_rows * model.length / traced_length
    # Parameters and gradients are sent as they are used.
    narrow = 2 / 4 if model.request.dtype == "bfloat16" else 1
    hosts = [device // target.per_host for device in range(target.devices)]
    links: dict[str, float] = defaultdict(float)
    activations = parameters = kernels = 0.0
    tpu = target.hardware.platform == "tpu"
    of_experts = 4 * sum(one.kernels for one in work.routed)
    for one in predict_collectives(plan):
        axes = [axis for axis in one.axes if plan.mesh[axis] > 1]
        if not axes:
            continue
        of_parameters = one.array in ("parameters", "gradients")
        again = AGAIN * repeated if one.phase == "forward" and not of_parameters else 0.0
        times = one.times * (micro_batches * narrow if of_parameters else share)
        times *= 1 + again
        if of_parameters and {*axes} <= {DATA, EXPERT}:
            times /= micro_batches  # devices add up the gradients of their own rows first
        sent = Collective(one.kind, one.bytes, group=first_group(plan.mesh, axes))
        seconds = times * link_seconds(sent, target.hardware, hosts)
        if of_parameters and axes == [FSDP] and one.kind != "all-reduce":
            part = seconds * of_experts / one.bytes
            if (
                tpu and one.array == "gradients"
            ):  # as an all-reduce: the part of a device is cut out of it
                seconds, part = seconds + part, 2 * part
            kernels += part
        links["+".join(axes)] += seconds
        if of_parameters:
            parameters += seconds
        else:
            activations += seconds
    others = parameters - kernels
    waited = max(ENDS * others, others - HIDING * computing)
    waited += experts.WAITED[target.hardware.platform] * kernels
    return dict(links), WAITED * activations + waited


def first_group(mesh: Mapping[str, int], axes: Sequence[str]) -> tuple[int, ...]:
    """Return the devices that differ from the first along `axes` alone, by their place in a mesh."""
    places = np.arange(math.prod(mesh.values())).reshape(*mesh.values())
    along = tuple(slice(None) if axis in axes else 0 for axis in mesh)
    return tuple(places[along].ravel().tolist())
