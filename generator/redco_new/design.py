"""What a request names, found and laid out: the model, its recipe, and the plan of its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from redco_new.errors import RedcoError
from redco_new.family_design import find_family
from redco_new.own_design import find_own_design
from redco_new.program import Program
from redco_new.request import Request
from redco_new.sharding import EXPERT, MODEL, Plan, ShardingError, plan_sharding

# Examples on each device: the cost of collectives scales with their number, the layout does not.
TRACED_BATCH = 8


class Design(Protocol):
    """What a request names, found: the model, how it is trained, and the text of its files.

    facts: what the templates of a project print of it.  files: those that are taken as they are,
    path -> text.  program: the loss of the full model, of a batch of so many rows.
    recorded: the model, for the manifest; None for an own class.  notes: what its user should know.
    """

    request: Request

    @property
    def recorded(self) -> Mapping[str, Any] | None: ...

    @property
    def notes(self) -> Sequence[str]: ...

    def facts(self) -> dict[str, Any]: ...

    def files(self) -> dict[str, str]: ...

    def program(self, rows: int) -> Program: ...


def find_design(request: Request, template: Path) -> Design:
    """What `request` names. Raises RedcoError where there is no such thing."""
    find = find_own_design if request.own else find_family
    return find(request, template)


def plan_for(request: Request, template: Path) -> Plan:
    """The layout of the requested model at full size, from its own loss."""
    return plan_program(request, find_design(request, template).program(rows(request)))


def rows(request: Request) -> int:
    """How many examples are traced."""
    mesh = {axis: max(size, 1) for axis, size in request.mesh.items()}
    return TRACED_BATCH * math.prod(mesh.values()) // mesh[MODEL]


def plan_program(request: Request, program: Program) -> Plan:
    """The layout of the parameters of `program`, as `request` asks for it. Raises RedcoError."""
    mesh = {axis: max(size, 1) for axis, size in request.mesh.items()}
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
