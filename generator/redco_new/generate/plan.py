"""The plan of a request's model, on the mesh that it asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redco_plan import CONTEXT, EXPERT, MODEL, Plan, ShardingError, plan_sharding

from redco_new.errors import RedcoError
from redco_new.generate.shards import check_context, check_shards
from redco_new.models.program import Program
from redco_new.request import COMPUTE, RING, Request

# Examples on each device: the bytes of collectives scale with their number, the layout does not.
TRACED_BATCH = 8


def traced_rows(request: Request) -> int:
    """Return how many examples are traced: TRACED_BATCH for each device that has its own."""
    mesh = _sizes(request)
    return TRACED_BATCH * math.prod(mesh.values()) // mesh[MODEL] // mesh.get(CONTEXT, 1)


def most_parts(request: Request) -> int:
    """Return the most parts that a dim of a parameter is split into."""
    mesh = _sizes(request)
    return math.prod(mesh.values()) // mesh["data"]


def plan_program(request: Request, program: Program) -> Plan:
    """Return the layout of the parameters of `program` that `request` asks for. Raises RedcoError."""
    mesh = _sizes(request)

    def plan_on(sizes: Mapping[str, int]) -> Plan:
        return plan_sharding(
            program.forward,
            program.params,
            program.batch,
            {axis: size for axis, size in sizes.items() if axis != EXPERT or size > 1},
            adapt=True,
            apart=request.own is not None,
            sequence_parallel=request.sequence_parallel,
            ring=request.context_attention == RING,
            zero=request.zero,
        )

    try:
        plan = plan_on(mesh)
    except ShardingError as error:
        what = " ".join(str(error).split())
        raise RedcoError("--model", what, "mend the class, or its recipe") from error
    check_shards(plan, mesh[MODEL], lambda: plan_on(dict.fromkeys(mesh, 1)))
    if mesh[EXPERT] > 1 and not any(EXPERT in axes for axes in plan.axes.values()):
        what = f"{request.model_name} has no experts that expert={mesh[EXPERT]} can split"
        raise RedcoError("--mesh", what, "leave the axis expert out")
    check_context(plan, request.model_name)
    across = "" if request.gradients_across == COMPUTE else request.gradients_across
    if across and not plan.layouts.rows_alone:
        what = f"rows of a batch of {request.recipe or request.model_name} depend on each other"
        raise RedcoError("--gradients-across", what, "leave it out")
    return replace(_with_copies(plan, program.copies), frozen=program.frozen, across=across)


def _with_copies(plan: Plan, copies: Mapping[str, str]) -> Plan:
    """Return a plan where a branch that starts as another one lies as it does.

    A reference may be no part of the loss, so that nothing there says where it lies.
    """
    places = {p.path: i for i, p in enumerate(plan.parameters)}

    def place(path: str) -> int:
        branch, _, rest = path.partition("/")
        return places.get(f"{copies.get(branch, branch)}/{rest}", places[path])

    if not copies:
        return plan
    own = [place(p.path) for p in plan.parameters]
    names = ("partitions", "moments", "stored", "labels", "reasons")
    fields: dict[str, Any] = {name: tuple(getattr(plan, name)[i] for i in own) for name in names}
    return replace(plan, **fields)


def _sizes(request: Request) -> dict[str, int]:
    return {axis: max(size, 1) for axis, size in request.mesh.items()}
