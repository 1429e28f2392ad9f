"""What the experts of a model make of a device: the rows that were sent to them, in blocks (redco_runtime/nn/experts/expert_rows.py).

The program that is planned has every expert compute every token; on an accelerator the chosen ones do. On the axis
`expert` a device takes the tokens of all devices of that axis: it has room for a little more than its even share of their
rows, which it moves through its memory, and multiplies that share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.core import Jaxpr, jaxprs_in_params
from redco_plan import FSDP, Node, Plan

from redco_fit.compiled.groups import Groups, mean_rows
from redco_fit.hardware import READ, Hardware
from redco_fit.search.model import Planned

# Of programs that XLA compiled for H100 and TPU (mixtral 8x7b and qwen3-moe 30b-a3b, fsdp alone and with expert). Times that
# a step reads or writes an array of rows, besides its products: rows of mlp 3 times forward and 6 to 9 backward, others 5.
ROWS = 3.5
# Copies of a kernel that is sent, read and written: collectives of XLA for GPUs take an array's first dim, and fsdp
# splits another where it does not divide the experts. Gathered forward and backward; the gradient scattered.
COPIED = 3
# Of the three kernels of a layer, one is sent while another multiplies; TPUs wait for each. Where devices share the
# experts, what they multiply meanwhile is their share of rows alone, which hides little.
WAITED = {"gpu": 2 / 3, "tpu": 1.0}
WAITED_APART = 0.9
NAME = "u_BSEF"  # what redco_runtime/nn/experts/expert_rows.py calls the results of the first two products of an expert


@dataclass(frozen=True)
class Routed:
    """One product of experts on a device, forward.

    room: rows of its arrays.  times: how often a step makes it.
    first: whether tokens are sent to it; what the others multiply lies there already.
    apart: whether its kernels are sent by a dim that is not their first.
    """

    groups: Groups
    room: int
    times: int
    first: bool
    apart: bool

    @property
    def flops(self) -> float:
        """FLOPs of a forward pass."""
        return self.times * self.groups.flops

    @property
    def rows_bytes(self) -> int:
        """Bytes of the rows that it makes, and of those that it reads unless another reads them too, in bfloat16."""
        groups = self.groups
        sides = groups.columns + (groups.inner / 2 if self.first else groups.inner)
        return int(2 * self.times * self.room * sides)

    @property
    def kernels(self) -> int:
        """Numbers of its kernels that a device multiplies with."""
        return self.times * self.groups.groups * self.groups.inner * self.groups.columns

    def seconds(self, hardware: Hardware, dtype: str, again: bool, passes: int = 1) -> float:
        """Return the seconds of the product and of those of its gradients; again: whether what remat computes again is.

        passes: forward, of all of a layer.
        """
        one = self.groups
        every = [
            *([one] * passes),
            replace(one, inner=one.columns, columns=one.inner),
            replace(one, of_kernels=True),
            *([one] if again and self.first else []),
        ]
        peak, cache = hardware.flops[dtype], READ * hardware.cycles
        return self.times * sum(max(one.flops / peak, one.read / cache) for one in every)

    def moving(self, hardware: Hardware) -> float:
        """Return the seconds of what is not multiplied: of rows, and of kernels."""
        moved = ROWS * self.rows_bytes
        if hardware.platform == "gpu" and self.apart:
            moved += 2 * 2 * COPIED * self.kernels
        return moved / hardware.bandwidth


def routed_product(model: Planned, dot: Any, rows: int, platform: str) -> Routed | None:
    """Return what a product is where it is one of experts, of `rows` examples over all devices; None where it is not."""
    # Late: reading a model makes it importable.
    from redco_runtime.nn.experts.expert_blocks import block_rows
    from redco_runtime.nn.experts.expert_rows import PRODUCTS, most_rows

    plan, graph = model.plan, model.plan.classes.graph
    ticks = rows // model.batch_parts if model.staged else 1  # of a row on each device
    kernels = dot.lhs if dot.lhs.parameter is not None else dot.rhs
    kinds = [plan.classes.labels.get(graph.find(node)) for node in kernels.dims]
    if not {"experts", "mlp"} <= {*kinds}:
        return None

    def size(nodes: Iterable[int]) -> int:
        return math.prod(graph.sizes[n] // _parts(plan, axes_of(plan, n)) for n in nodes)

    summed = {*map(graph.find, dot.contracted)}
    of_experts = [node for node, kind in zip(kernels.dims, kinds, strict=True) if kind == "experts"]
    sides = [node for node in kernels.dims if node not in of_experts]
    inner = [node for node in sides if graph.find(node) in summed]
    columns = [node for node in sides if node not in inner]
    own = {axis for node in of_experts for axis in axes_of(plan, node)}
    tokens = rows // ticks * model.length / _parts(plan, {*plan.batch_axes} - own)
    whole, here = math.prod(graph.sizes[node] for node in of_experts), size(of_experts)
    sent = tokens * chosen_experts(plan.jaxpr) * whole
    block = block_rows(PRODUCTS[platform].blocks, int(sent) // here)
    groups = Groups(
        mean_rows(sent * here / whole, here, block), here, size(inner), size(columns), block
    )
    first = "mlp" in {plan.classes.labels.get(graph.find(node)) for node in columns}
    room = most_rows(int(sent), here, block, whole // here)
    return Routed(groups, room, dot.times * ticks, first, _sent_apart(plan, kernels.parameter))


def _sent_apart(plan: Plan, index: int) -> bool:
    """Return whether fsdp splits another dim of experts' kernels than their number."""
    labels = map(plan.classes.labels.get, plan.classes.parameter_dims[index])
    split = [
        label
        for label, entry in zip(labels, plan.partitions[index], strict=True)
        if FSDP in (entry or ())
    ]
    return plan.mesh[FSDP] > 1 and "experts" not in split


def chosen_experts(jaxpr: Jaxpr) -> float:
    """Return the share of a model's experts that a token is computed by: 1 where a model has none."""
    shares = [eqn.params["k"] / eqn.invars[0].aval.shape[-1] for eqn in _choices(jaxpr)]
    return min(shares, default=1.0)


def _choices(jaxpr: Jaxpr) -> Iterator[Any]:
    """Yield the equations that choose the largest of some."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "top_k":
            yield eqn
        for body in jaxprs_in_params(eqn.params):
            yield from _choices(body)


def axes_of(plan: Plan, node: Node) -> tuple[str, ...]:
    """Return the axes that split a dim."""
    return tuple(plan.axes.get(plan.classes.graph.find(node), ()))


def _parts(plan: Plan, axes: Iterable[str]) -> int:
    return math.prod(plan.mesh[axis] for axis in axes)
