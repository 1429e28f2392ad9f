"""A compiled step as a Reading. Runs in fit's child process."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from redco_new.inspect.units import size_text
from redco_plan import EXPERT

from redco_fit.compiled.hlo import Collective, collectives
from redco_fit.compiled.instructions import Program
from redco_fit.compiled.products import attention_workspace
from redco_fit.compiled.roofline import Machine, bound
from redco_fit.hardware import ADDED, READ, Hardware
from redco_fit.links import link_seconds
from redco_fit.reading import Reading, Sent
from redco_fit.step import Step
from redco_fit.target import Target

# xla_gpu_memory_limit_slop_factor's default: XLA computes arrays again beyond this share of what the arguments leave.
SLOP = 0.95
# libtpu's sizes, as in "Used 78.50G of 30.75G hbm" or, of temporaries alone, "temporaries (881.71G) exceeds available HBM (15.75G)".
USED = re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm")
TEMPORARIES = re.compile(r"temporaries \(([\d.]+)([KMGT])\) exceeds[^(]*\(([\d.]+)([KMGT])\)")
UNITS = {unit: 1024**power for power, unit in enumerate("KMGT", 1)}
PACKED_FROM = (
    9.0  # the capability from which its attention takes packed texts (redco_runtime/nn/kernels.py)
)
LEAST = 1024  # bytes below which a collective is not listed: losses, norms and other scalars


def read_step(step: Step, asked_for: Target, target: Target) -> Reading:
    """Return what the compiler said of a step. target: the devices that it was compiled for."""
    hardware, train = target.hardware, step.config.train
    sizes = {axis: size for axis, size in step.mesh.shape.items() if size > 1} or {"data": 1}
    remat = [str(getattr(step.config.model, "remat", "")), *step.lines]
    reading: dict[str, Any] = {
        "target": asked_for.name,
        "compiled_for": target.name,
        "devices": target.devices,
        "mesh": sizes,
        "batch": train.batch_size,
        "length": getattr(step.config.data, "sequence_length", 0),
        "remat": next((line for line in remat[::-1] if line.startswith("remat:")), remat[0]),
        "limit_bytes": hardware.usable,
        "compile_seconds": step.seconds,
        "memory": state_memory(step),
        "model_flops": step.model_flops / target.devices,
        "notes": notes_of(step, asked_for, target),
    }
    if step.refused:
        return Reading(**reading | refusal(step))
    return Reading(
        **reading | read_memory(step, hardware) | read_program(step, target, reading["length"])
    )


def notes_of(step: Step, asked_for: Target, target: Target) -> tuple[str, ...]:
    """Return what a reader must know of how it was compiled."""
    notes = [line for line in step.lines if not line.startswith("remat:")]
    if asked_for != target:
        notes.append(
            f"{asked_for.name} has no whole hosts: compiled for {target.name}, the nearest"
        )
    if target.hardware.platform == "gpu":
        notes.append("the memory of NCCL is not in the peak")
        notes += workspace_notes(step, target.hardware)
    if step.memory and step.memory.host_argument_size_in_bytes:
        notes.append(moving_note(step.memory.host_argument_size_in_bytes, target.hardware))
    return tuple(notes)


def moving_note(size: int, hardware: Hardware) -> str:
    """Return what it costs that `size` bytes of each device's state lie in the memory of the hosts."""
    note = f"{size_text(size)} of the optimizer come from the host in each step, and go back, beside which nothing is computed"
    if hardware.platform == "tpu":
        return f"{note}: more than is estimated"
    return f"{note}: at least {1e3 * size / hardware.host_memory:.0f} ms more than is estimated, by PCIe"


def workspace_notes(step: Step, hardware: Hardware) -> list[str]:
    """Return what cuDNN's attention works with, and what it would where texts are packed in a row."""
    program = Program(step.text)
    size = attention_workspace(program)
    if not size:
        return []
    notes = [f"{size_text(size)} of the peak are an allowance for the memory of cuDNN's attention"]
    data = step.config.data
    packs = getattr(data, "packing", "off") == "on" and "segments" not in step.batch
    if packs and hardware.capability >= PACKED_FROM and find_spec("redco_runtime.nn.packed_rows"):
        most = importlib.import_module("redco_runtime.nn.packed_rows").most_texts(
            data.sequence_length
        )
        more = attention_workspace(program, most + 1) - size  # its padding is one more
        notes.append(
            f"rows of texts packed by --data take at least {size_text(more)} more for that"
        )
    return notes


def refusal(step: Step) -> dict[str, Any]:
    """Return the fields of a Reading that the compiler's refusal has, with its sizes where it says them."""
    fields: dict[str, Any] = {"refused": step.refused}
    kinds = state_memory(step)
    arguments = sum(size for kind, size in kinds.items() if kind != "gradients")
    whole, part = USED.search(step.refused), TEMPORARIES.search(step.refused)
    if match := whole or part:
        size, limit = (int(float(match[i]) * UNITS[match[i + 1]]) for i in (1, 3))
        fields |= {"peak_bytes": size if whole else size + arguments, "limit_bytes": limit}
        fields["memory"] = kinds | {
            "activations": max(0, fields["peak_bytes"] - arguments - kinds["gradients"])
        }
    return fields | {"argument_bytes": arguments}


def state_memory(step: Step) -> dict[str, int]:
    """Return the bytes on a device of what a step is called with, and of its gradients, by kind."""
    sizes = importlib.import_module("redco_runtime.layout.specs")
    state, size = step.built.state, sizes.size_on_device
    fields = {one.name: size(getattr(state, one.name)) for one in dataclasses.fields(state)}
    params = fields.pop("params") + fields.pop("frozen", 0)
    optimizer = fields.pop("opt_state") + fields.pop("ema", 0)
    return {
        "parameters": params,
        "optimizer": optimizer,
        "variables": sum(fields.values()),
        "batch": size(step.batch),
        "gradients": sizes.gradient_size(state, step.config.train.micro_batches),
    }


def read_memory(step: Step, hardware: Hardware) -> dict[str, Any]:
    """Return the bytes of a Reading. What lies in the host's memory counts apart."""
    memory, gpu = step.memory, hardware.platform == "gpu"
    host = memory.host_argument_size_in_bytes + memory.host_temp_size_in_bytes
    arguments = memory.argument_size_in_bytes
    outputs = memory.output_size_in_bytes - memory.alias_size_in_bytes
    temporary = memory.temp_size_in_bytes
    workspace = attention_workspace(Program(step.text)) if gpu else 0
    kinds = state_memory(step)
    gradients = min(kinds["gradients"], temporary)
    rest = temporary - gradients + workspace + max(outputs, 0)
    return {
        "argument_bytes": arguments,
        "output_bytes": memory.output_size_in_bytes,
        "temporary_bytes": temporary,
        "workspace_bytes": workspace,
        "host_bytes": host,
        "peak_bytes": arguments + max(outputs, 0) + temporary + workspace,
        "remat_bytes": recomputation_limit(step, hardware, arguments + outputs),
        "memory": kinds | {"gradients": gradients, "activations": rest},
    }


def recomputation_limit(step: Step, hardware: Hardware, used: int) -> int | None:
    """Return the temporaries in bytes beyond which XLA computes arrays again, beside `used` bytes; None where it does not.

    A project's xla_flags.py says so, unless it was made before it did.
    """
    options = getattr(step.built, "options", {})
    off = "rematerialization" in str(options.get("xla_disable_hlo_passes", ""))
    if off or hardware.platform != "gpu":
        return None
    return int(SLOP * max(0, hardware.usable - used))


def read_program(step: Step, target: Target, length: int) -> dict[str, Any]:
    """Return the FLOPs, the collectives and the seconds of a Reading."""
    hardware, count = target.hardware, target.devices
    hosts = [int(one.id) // target.per_host for one in step.mesh.devices.flat]

    def seconds(one: Collective) -> float:
        return link_seconds(one, target, hosts)

    speeds = hardware.flops
    machine = Machine(
        speeds["bfloat16"],
        hardware.bandwidth,
        hardware.link,
        others=speeds,
        cache=READ * hardware.cycles,
        added=ADDED * hardware.cycles,
    )
    cost = bound(step.text, count, machine, length, seconds, step.mesh.shape.get(EXPERT, 1))
    sent = [one for one in collectives(step.text, count) if one.bytes >= LEAST]
    by_axis: dict[str, float] = {}
    for one in sent:
        axis = axes_between(one, step.mesh.shape)
        by_axis[axis] = by_axis.get(axis, 0.0) + seconds(one)
    flops = float(cost.get("flops", 0.0))
    parts = {"products": cost["products"] + cost["attention"], "memory": cost["other"]}
    if hardware.platform == "tpu":
        parts = tpu_parts(step, target, flops, cost["flops8"])
    return {
        "flops": flops,
        "coded_flops": cost["flops8"],
        "collectives": list_sent(sent, step.mesh.shape),
        "seconds": parts | by_axis | {"exposed": cost["exposed"]},
        "step_seconds": hardware.step_seconds(sum(parts.values()) + cost["exposed"]),
    }


def tpu_parts(step: Step, target: Target, flops: float, flops8: float) -> dict[str, float]:
    """Return the seconds of a TPU's products and memory: what its fused kernels read is not in their text.

    flops, flops8: of its products, and of those in 8 bits. Splash attention does not say its FLOPs: there are as many as the model has, at least. Every array
    is written once and read once.
    """
    hardware, memory = target.hardware, step.memory
    size = memory.argument_size_in_bytes + memory.output_size_in_bytes
    size += 2 * memory.temp_size_in_bytes
    speeds = hardware.flops
    least = max(flops, step.model_flops / target.devices)
    return {
        "products": (least - flops8) / speeds["bfloat16"] + flops8 / speeds.get("int8", 1.0),
        "memory": size / hardware.bandwidth,
    }


def axes_between(one: Collective, mesh: Mapping[str, int]) -> str:
    """Return the axes along which the devices of a collective differ, with + between."""
    if not one.group:
        return "+".join(axis for axis, size in mesh.items() if size > 1)
    places = np.array(np.unravel_index(one.group, tuple(mesh.values())))
    return "+".join(
        axis for axis, along in zip(mesh, places, strict=True) if len({*along.tolist()}) > 1
    )


def list_sent(sent: Sequence[Collective], mesh: Mapping[str, int]) -> tuple[Sent, ...]:
    """Return the collectives, those of one kind, axis and source together, the largest first."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for one in sent:
        total = sums.setdefault((one.kind, axes_between(one, mesh), one.source), [0, 0])
        total[0], total[1] = total[0] + one.runs, total[1] + one.runs * one.bytes
    every = [
        Sent(kind, count, size, axis, source)
        for (kind, axis, source), (count, size) in sums.items()
    ]
    return tuple(sorted(every, key=lambda one: one.bytes, reverse=True))
