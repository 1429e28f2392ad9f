"""What a request names, found and laid out: the model, its recipe, and the plan of its parameters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Protocol

from redco_new.errors import RedcoError
from redco_new.family_design import find_family
from redco_new.own_design import find_own_design
from redco_new.program import Program
from redco_new.request import Request
from redco_new.sharding.axes import MODEL
from redco_new.sharding.place import EXPERT
from redco_new.sharding.plan import Plan, plan_sharding
from redco_new.sharding.untraceable import ShardingError

# Examples on each device: the cost of collectives scales with their number, the layout does not.
TRACED_BATCH = 8


class Design(Protocol):
    """What a request names, found: the model, how it is trained, and the text of its files.

    facts: what the templates of a project print of it.  files: those that are taken as they are,
    path -> text.  program: the loss of the full model, of a batch of so many rows.
    """

    request: Request

    def facts(self) -> dict[str, Any]: ...

    def files(self) -> dict[str, str]: ...

    def program(self, rows: int) -> Program: ...


def find_design(request: Request, template: Path) -> Design:
    """What `request` names. Raises RedcoError where there is no such thing."""
    find = find_own_design if request.own else find_family
    return find(request, template)


def plan_for(request: Request, template: Path) -> Plan:
    """The layout of the requested model at full size, from its own loss."""
    return plan_design(find_design(request, template))


def plan_design(design: Design) -> Plan:
    """The layout of a design's model at full size, from its own loss. Raises RedcoError."""
    request = design.request
    mesh = {axis: max(size, 1) for axis, size in request.mesh.items()}
    program = design.program(TRACED_BATCH * math.prod(mesh.values()) // mesh[MODEL])
    try:
        plan = plan_sharding(
            program.forward,
            program.params,
            program.batch,
            {a: size for a, size in mesh.items() if a != EXPERT or size > 1},
            adapt=True,
            sequence_parallel=request.sequence_parallel,
            zero=request.zero,
        )
    except ShardingError as error:
        what = " ".join(str(error).split())
        raise RedcoError("--model", what, "mend the class, or its recipe") from error
    if mesh[EXPERT] > 1 and not any(EXPERT in axes for axes in plan.axes.values()):
        what = f"{request.model} has no experts that expert={mesh[EXPERT]} can split"
        raise RedcoError("--mesh", what, "leave the axis expert out")
    return plan
