"""The numbers that scatters add to an array: XLA for GPUs adds each by an atomic operation."""

from __future__ import annotations

import re
from math import prod

from redco_fit.compiled.instructions import Instruction, Program, shapes

REGION = re.compile(r"\bto_apply=%?([\w.\-]+)")


def numbers_added(program: Program, computation: str, one: Instruction) -> int:
    """Return how many numbers the scatters of an instruction add, with those of what it fuses."""
    if one.operation == "fusion":
        return sum(
            numbers_added(program, name, inner)
            for name in program.callees(one)
            for inner in program.computations[name]
        )
    region = REGION.search(one.rest) if one.operation == "scatter" else None
    if not region or all(i.operation != "add" for i in program.computations.get(region[1], ())):
        return 0
    (updates,) = shapes(program.operands(computation, one)[-1])
    return prod(updates)
