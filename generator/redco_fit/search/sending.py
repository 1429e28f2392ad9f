"""The seconds of a step's collectives, from the plan, and those of them that a device waits for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from redco_plan import (
    DATA,
    EXPERT,
    FSDP,
    axes_of_entry,
    predict_collectives,
    shard_shape,
)

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
JOINED = (
    30 * 2**20
)  # bytes up to which XLA joins collectives (its kDefaultAllGatherCombineThreshold)
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
    plan, (traced_rows, traced_length) = model.plan, model.traced
    share = rows / traced_rows * model.length / traced_length
    # Parameters and gradients are sent as they are used.
    narrow = 2 / 4 if model.request.dtype == "bfloat16" else 1
    hosts = [device // target.per_host for device in range(target.devices)]
    links: dict[str, float] = defaultdict(float)
    activations = parameters = kernels = 0.0
    tpu = target.hardware.platform == "tpu"
    layers = max((layers_of(plan, dims) for dims in plan.classes.parameter_dims), default=1)
    of_experts = 4 * sum(one.kernels for one in work.routed)
    for one in predict_collectives(plan):
        axes = [axis for axis in one.axes if plan.mesh[axis] > 1]
        if not axes:
            continue
        of_parameters = one.array in ("parameters", "gradients")
        again = AGAIN * repeated if one.phase == "forward" and not of_parameters else 0.0
        # Devices add up the gradients of their own rows first.
        passes = 1 if of_parameters and {*axes} <= {DATA, EXPERT} else micro_batches
        if of_parameters:
            codes = _coded(model) / 2 if one.kind == "all-gather" else 0.0
            size, messages = one.bytes * narrow * (1 - codes), _joined(
                model, one.kind, axes, narrow
            )
        else:
            times = one.times * (1 + again)
            # The loss's chunks, which a trace of all rows makes smaller than a step does, are fewer than its layers.
            size, messages = one.bytes * share / micro_batches * times, min(times, layers)
        sent = Collective(one.kind, int(size), passes, group=first_group(plan.mesh, axes))
        seconds = link_seconds(sent, target, hosts, messages=passes * messages)
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
    alone = experts.WAITED_APART if plan.mesh.get(EXPERT, 1) > 1 else 0.0
    waited += max(alone, experts.WAITED[target.hardware.platform]) * kernels
    return dict(links), WAITED * activations + waited


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
    for dims, parameter, stored, spec in rows:
        own = {axis for entry in spec for axis in axes_of_entry(entry)}
        rest = [axis for axis in plan.batch_axes if axis not in own and plan.mesh[axis] > 1]
        if rest == [*axes] if kind == "all-reduce" else FSDP in own:
            layers = layers_of(plan, dims)
            size = (
                narrow * math.prod(shard_shape(stored, spec, plan.mesh)) * parameter.dtype.itemsize
            )
            size *= plan.mesh[FSDP] if FSDP in own and kind != "all-reduce" else 1
            count += layers * min(1.0, size / layers / JOINED)
    return max(1.0, count)


def first_group(mesh: Mapping[str, int], axes: Sequence[str]) -> tuple[int, ...]:
    """Return the devices that differ from the first along `axes` alone, by their place in a mesh."""
    places = np.arange(math.prod(mesh.values())).reshape(*mesh.values())
    along = tuple(slice(None) if axis in axes else 0 for axis in mesh)
    return tuple(places[along].ravel().tolist())
