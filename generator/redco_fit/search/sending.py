"""The seconds of a step's collectives, from the plan, and those of them that a device waits for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from redco_plan import (
    CONTEXT,
    DATA,
    EXPERT,
    STAGE,
    Plan,
    axes_of_entry,
    fsdp_axes,
    in_stages,
    predict_collectives,
    shard_shape,
    token_axes,
)

from redco_plan import Collective as Predicted

from redco_new.request import COMPUTE

from redco_fit.compiled.hlo import Collective
from redco_fit.links import link_seconds
from redco_fit.search import experts
from redco_fit.search.model import Planned
from redco_fit.search.work import Work, layers_of
from redco_fit.target import Target

# Of the steps that estimate.py's factors are of: the share of the collectives of activations that nothing is computed beside; of the computing,
# what those of parameters hide behind; and the share of these that is never hidden: of the first and the last layer.
WAITED, HIDING, ENDS = 0.7, 0.4, 0.05
# Of what enters and leaves attention: queries, keys and values follow each other, and the next product waits for the last one.
BORDER = 0.1
JOINED = (
    30 * 2**20
)  # bytes up to which XLA joins collectives (its kDefaultAllGatherCombineThreshold)
# Times that layers change stages for several repeats: for both passes, and their gradients (Llama 70B, compiled for 64 H100).
TURNS = 3
AGAIN = 0.5  # of a layer's two sums, the first is needed again where the layer is computed again


def sending(
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
    plan, cut = model.plan, rows // micro_batches
    # Parameters and gradients are sent as they are used.
    narrow = 2 / 4 if model.request.dtype == "bfloat16" else 1
    hosts = [device // target.per_host for device in range(target.devices)]
    links: dict[str, float] = defaultdict(float)
    activations = parameters = kernels = borders = 0.0
    tpu = target.hardware.platform == "tpu"
    over = _gathered_over(plan)
    of_experts = 0 if model.staged else 4 * sum(one.kernels for one in work.routed)
    for one in predict_collectives(plan):
        axes = [axis for axis in one.axes if plan.mesh[axis] > 1]
        if not axes:
            continue
        of_parameters = one.array in ("parameters", "gradients")
        # Devices add up the gradients of their own rows first.
        passes = 1 if of_parameters and {*axes} <= {DATA, EXPERT} else micro_batches
        if of_parameters:
            codes = _coded(model) / 2 if one.kind == "all-gather" else 0.0
            size, messages = one.bytes * narrow * (1 - codes), _joined(
                model, one.kind, axes, narrow
            )
        else:
            size, messages = _of_activations(model, one, cut, repeated)
        sent = Collective(one.kind, int(size), passes, group=first_group(plan.mesh, axes))
        seconds = link_seconds(sent, target, hosts, messages=passes * messages)
        if of_parameters and {*axes} == over and one.kind != "all-reduce":
            part = seconds * of_experts / one.bytes
            if (
                tpu and one.array == "gradients"
            ):  # as an all-reduce: the part of a device is cut out of it
                seconds, part = seconds + part, 2 * part
            kernels += part
        links["+".join(axes)] += seconds
        if of_parameters:
            parameters += seconds
        elif _at_border(one):
            borders += seconds
        else:
            activations += seconds
    others = parameters - kernels
    waited = max(ENDS * others, others - HIDING * computing)
    alone = experts.WAITED_APART if plan.mesh.get(EXPERT, 1) > 1 else 0.0
    waited += max(alone, experts.WAITED[target.hardware.platform]) * kernels
    if model.repeats > 1:
        turned = _turned(model, target, hosts)
        links[STAGE], waited = links[STAGE] + turned, waited + turned
    return dict(links), WAITED * activations + BORDER * borders + waited


def _turned(model: Planned, target: Target, hosts: Sequence[int]) -> float:
    """Return the seconds of the layers that change stages, for several repeats."""
    group = first_group(model.plan.mesh, [STAGE])
    turned = Collective("all-to-all", model.turned_bytes, TURNS, group=group)
    return link_seconds(turned, target, hosts, messages=TURNS)


def _gathered_over(plan: Plan) -> set[str]:
    """Return the axes that parameters are gathered over."""
    return {axis for axis in fsdp_axes(plan.mesh) if plan.mesh[axis] > 1}


def _at_border(one: Predicted) -> bool:
    """Return whether it is what enters or leaves attention of some heads, or goes around beside it."""
    return one.classes == ("positions",) and one.axes == (CONTEXT,)


def _of_activations(
    model: Planned, one: Predicted, rows: int, repeated: float
) -> tuple[float, float]:
    """Return the bytes of a collective of activations in a micro-batch of `rows`, and as how many it is sent."""
    plan, (traced_rows, traced_length) = model.plan, model.traced
    longer, ticks = model.length / traced_length, model.ticks(rows)
    if (
        one.axes == (STAGE,) and one.kind == "collective-permute"
    ):  # of a row a tick, and of the stream of rows
        return 2 * ticks * one.bytes * longer, 2 * ticks
    # What enters attention is sent again wherever anything is computed again.
    again = float(repeated > 0) if _at_border(one) else AGAIN * repeated
    inside = model.staged and "vocab" not in one.classes
    times = one.times * (model.idle(rows) if inside else 1.0)
    times *= 1 + again + inside if one.phase == "forward" else 1
    layers = max((layers_of(plan, dims) for dims in plan.classes.parameter_dims), default=1)
    # The loss's chunks, which a trace of all rows makes smaller than a step does, are fewer than its layers.
    rounds = model.rounds(rows) / plan.mesh.get(STAGE, 1)
    messages = min(times, layers) * (rounds if inside else 1)
    return one.bytes * rows / traced_rows * longer * times, messages


def _coded(model: Planned) -> float:
    """Return the share of the parameters that are gathered in 8 bits: kernels of layers, where these multiply so."""
    if model.request.products == COMPUTE:
        return 0.0
    kernels = (
        math.prod(parameter.shape)
        for dims, parameter in zip(
            model.plan.classes.parameter_dims, model.plan.parameters, strict=True
        )
        if layers_of(model.plan, dims) > 1 and len(dims) == 3
    )
    return sum(kernels) / model.elements


def _joined(model: Planned, kind: str, axes: Sequence[str], narrow: float) -> float:
    """Return as how many collectives the parameters are gathered, or gradients summed, over `axes`: a layer's apart, small ones joined."""
    plan, count = model.plan, 0.0
    rows = zip(
        plan.classes.parameter_dims, plan.parameters, plan.stored, plan.partitions, strict=True
    )
    over = _gathered_over(plan)
    for i, (dims, parameter, stored, spec) in enumerate(rows):
        own = {axis for entry in spec for axis in axes_of_entry(entry)}
        gathered = bool(own & over) and not in_stages(plan, i)
        rest = [axis for axis in token_axes(plan) if axis not in own and plan.mesh[axis] > 1]
        if rest == [*axes] if kind == "all-reduce" else gathered:
            layers = layers_of(plan, dims)
            size = (
                narrow * math.prod(shard_shape(stored, spec, plan.mesh)) * parameter.dtype.itemsize
            )
            size *= math.prod(plan.mesh[axis] for axis in over) if kind != "all-reduce" else 1
            count += layers * min(1.0, size / layers / JOINED)
    return max(1.0, count)


def first_group(mesh: Mapping[str, int], axes: Sequence[str]) -> tuple[int, ...]:
    """Return the devices that differ from the first along `axes` alone, by their place in a mesh."""
    places = np.arange(math.prod(mesh.values())).reshape(*mesh.values())
    along = tuple(slice(None) if axis in axes else 0 for axis in mesh)
    return tuple(places[along].ravel().tolist())
