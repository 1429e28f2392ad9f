"""The memory of a step, and what its layers save: by the runtime's own rule, so that both choose alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from redco_plan import FSDP

from redco_fit.search.experts import NAME as EXPERTS
from redco_fit.search.experts import chosen_experts
from redco_fit.search.model import Planned

FIT, NOTHING = "fit", "nothing_saveable"
ATTENTION = "attention"  # what the runtime calls its output (redco_runtime/nn/kernels.py)
LOGITS = "logits_BSV"  # what it calls those that a loss keeps (redco_runtime/nn/layers.py)
MOMENTS = 2  # of AdamW, the optimizer of the preset full


@dataclass(frozen=True)
class Memory:
    """What a device holds.

    arguments: bytes of the state and the batch, which are exact.  temporary: an upper bound of what a step makes
    besides: gradients, what it works with at once, what is saved.  layered: bytes of what layers save, all but the logits.
    names: of what is saved.  again: FLOPs of products, but attention's and experts', that a device makes again; of a
    micro-batch.  repeated: the share of what is made again, of all that could be.  attended, routed: whether attention and
    the first products of experts are computed once only.  in_loop: whether layers save into stacks, as a GPU's do unless
    they save all that spares FLOPs, and few share its rows (redco_runtime/step/remat.py, layers.py).
    """

    arguments: int
    temporary: int
    layered: int
    names: tuple[str, ...]
    again: float
    repeated: float
    attended: bool
    routed: bool
    in_loop: bool

    @property
    def peak(self) -> int:
        """Bytes at most."""
        return self.arguments + self.temporary


def state_bytes(model: Planned, micro_batches: int) -> int:
    """Return the bytes on a device of the state, and of the gradients: of a micro-batch, and their sum."""
    gradients = model.summed_bytes(micro_batches)
    return model.parameter_bytes + gradients + MOMENTS * model.moment_bytes


# Of a step in which all is saved that spares time, and that fits: the least seconds that a mesh can have.
LEAST = Memory(0, 0, 0, (), 0.0, 0.0, True, True, False)


def memory_of(model: Planned, rows: int, micro_batches: int, remat: str, usable: int) -> Memory:
    """Return the memory of a step of `rows` examples over all devices.

    remat: FIT, NOTHING or names with commas between them.  usable: bytes that a device has for arrays.

    Of 67 steps of ten models that were compiled for H100, these are 1.04 to 1.69 of the peaks, most of them below 1.3, of
    experts 1.04 to 1.21: where a loss in chunks leaves less than the runtime reserves (tests/tools/tables/estimates.md).
    """
    # Late: reading a model makes the runtime importable.
    from redco_runtime.step import remat as rules

    needs = model.needs(rows // micro_batches)
    batch = sum(x.size * x.dtype.itemsize for x in _leaves(model.batch(rows)))
    arguments = model.parameter_bytes + MOMENTS * model.moment_bytes + batch // model.token_parts
    gradients = model.summed_bytes(micro_batches)
    names = _choose(needs, remat, usable, arguments + gradients + model.copied_bytes)
    chosen = [one for one in needs.savings if one.name in names]
    saved = sum(one.size for one in chosen)
    products = [one for one in needs.savings if one.name != ATTENTION]
    ticks = model.rounds(rows // micro_batches)
    flops = {one.name: one.flops * (1 if one.name == LOGITS else ticks) for one in products}
    again = {name: number for name, number in flops.items() if name not in names}
    shared = math.prod(model.plan.mesh.values()) // model.batch_parts
    in_loop = remat == NOTHING or not rules.writes_out(needs.savings, names, shared)
    copied = 0 if in_loop else model.copied_bytes
    return Memory(
        arguments=arguments,
        temporary=gradients + copied + needs.size + saved + model.turned_bytes,
        layered=sum(one.size for one in chosen if one.name != LOGITS),
        names=tuple(one.name for one in chosen),
        again=float(sum(again.values()) - again.get(EXPERTS, 0)),
        repeated=sum(again.values()) / max(1, sum(flops.values())),
        attended=ATTENTION in names,
        routed=EXPERTS in names,
        in_loop=in_loop or (model.plan.mesh[FSDP] > 1 and chosen_experts(model.plan.jaxpr) < 1),
    )


def _choose(needs: Any, remat: str, usable: int, used: int) -> tuple[str, ...]:
    """Return the names that a step saves."""
    # Late: reading a model makes the runtime importable.
    from redco_runtime.step import remat as rules

    if remat == FIT:
        return rules.choose(needs.savings, int(usable * (1 - rules.FREE)) - used - needs.size)
    return () if remat == NOTHING else tuple(remat.split(","))


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(tree)
