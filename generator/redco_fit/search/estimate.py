"""The roofline of a step, by its parts: an estimate, which ranks meshes; the machine's compiler has the last word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


from redco_fit.compiled.roofline import ATTENTION
from redco_fit.search.memory import FIT, Memory, memory_of
from redco_fit.search.model import Planned
from redco_fit.search.sending import sending
from redco_fit.search.work import Work, work_of
from redco_fit.target import Target

# What is not a product moves its arrays through memory. The three factors are least squares over the
# rooflines of 34 steps that XLA compiled for H100 (seven models, eight meshes, two remats; tests/tools/tables/estimates.md):
# of what products read and write, in a forward pass (a backward pass counts as two); of what layers save in a loop, which is
# written, sliced and copied; of the state, which the optimizer reads and writes.
TOUCHED, SAVED, STATE = 1.7, 7.0, 6.6
QUANTIZED = 1.0  # times that an array of a product in 8 bits is read for its largest, and written (tests/tools/tables/products.md)
CAST = 1.5  # times that a tick of stages reads parameters, or writes them in the dtype of products, in each pass
ACCUMULATED = 4  # times that a micro-batch reads or writes the sum of the gradients, and its own
SCORES = 8  # times that XLA's attention reads or writes the scores, forward and backward together
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
    part = rows // micro_batches
    work = work_of(model, part, target.hardware.platform)
    if memory is None:
        memory = memory_of(model, rows, micro_batches, remat, target.hardware.usable)
    parts = _computing(model, target, work, memory, part, micro_batches)
    computing = sum(parts.values())
    links, waiting = sending(model, target, work, rows, micro_batches, memory.repeated, computing)
    if target.hardware.platform == "gpu" and memory.peak > target.hardware.usable:
        waiting = sum(links.values())  # XLA then keeps the order that takes least memory
    flops = work.flops + sum(one.flops for one in work.routed) + _attention(model, work)
    whole = micro_batches * (3 * flops - work.frozen)
    return Estimate(memory, parts, links, waiting, whole)


def _attention(model: Planned, work: Work) -> float:
    """Return the FLOPs of attention's products, forward."""
    return work.attention * (CAUSAL if model.causal else 1)


def _computing(
    model: Planned, target: Target, work: Work, memory: Memory, rows: int, micro_batches: int
) -> dict[str, float]:
    """Return the seconds of what a device computes, by part. rows: of a micro-batch."""
    hardware, dtype = target.hardware, model.request.dtype
    peak = hardware.flops[dtype]
    # In stages layers compute in all ticks, and forward twice.
    idle, ticks, passes = model.idle(rows), model.rounds(rows), 3.0 + model.staged
    attention = _attention(model, work) * idle
    attention *= passes - 2 + BACKWARD + (not memory.attended)
    attention /= ATTENTION * hardware.filled(work.head)
    moved = TOUCHED * work.touched * idle * (passes + memory.repeated)
    tpu = hardware.platform == "tpu"
    if memory.in_loop or tpu:  # written out, layers copy nothing
        moved += SAVED * memory.layered * ticks
    fast = tpu or hardware.capability >= 8
    if not fast or dtype != "bfloat16":
        moved += SCORES * work.scores
    moved += ACCUMULATED * model.gradient_bytes * ticks if micro_batches * ticks > 1 else 0
    moved += CAST * model.parameter_bytes * (3 + memory.repeated) * ticks if model.staged else 0
    # Of layers in 8 bits, but the products of experts, of attention, and what is outside of them.
    fast8 = hardware.flops.get(model.request.products, peak)
    layers = passes * work.layers * idle + memory.again
    quantized = layers if fast8 > peak else 0.0
    moved += QUANTIZED * work.touched * idle * (passes + memory.repeated) if quantized else 0.0
    others = 3 * (work.flops - work.layers) - work.frozen
    products = (layers + others - quantized) / peak + quantized / fast8
    again, forward = not memory.routed, 1 + model.staged
    routed = idle * sum(one.seconds(hardware, dtype, again, forward) for one in work.routed)
    moving = idle * sum(one.moving(hardware) for one in work.routed) * passes / 3
    state = STATE * (model.gradient_bytes + model.moment_bytes)
    return {
        "products": micro_batches * (products + routed),
        "attention": micro_batches * attention / peak,
        "memory": (micro_batches * moved + state) / hardware.bandwidth + micro_batches * moving,
    }
