"""The seconds of collectives that a program's devices wait for, with nothing to compute meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from redco_fit.compiled.hlo import KINDS, OPERAND, Collective, made_by
from redco_fit.compiled.instructions import Instruction, Program


def exposed_seconds(
    program: Program,
    devices: int,
    link: Callable[[Collective], float],
    seconds: Callable[[str, Instruction], float],
) -> float:
    """Return the seconds of collectives, less those of what is computed between their starts and ends.

    link: the seconds of one collective.  seconds: of one instruction that is none.
    Optimistic: what two collectives wait beside each other counts for both.
    """

    def of(computation: str) -> float:
        waiting: dict[str, float] = {}
        starts: dict[str, str] = {}
        total = 0.0
        for one in program.computations[computation]:
            kind, _, end = one.operation.rpartition("-")
            if one.operation in KINDS:
                total += link(made_by(one.operation, "", one.type, one.rest, devices, {}))
            elif end == "start" and kind in KINDS:
                waiting[one.name], starts[one.name] = 0.0, one.rest
            elif end == "done" and kind in KINDS:
                during = waiting.pop(OPERAND.findall(one.rest)[0], 0.0)
                whole = link(made_by(kind, "", one.type, one.rest, devices, starts))
                total += max(0.0, whole - during)
            else:
                spent = seconds(computation, one)
                if one.operation in ("while", "call", "conditional"):
                    inner = [of(name) for name in program.callees(one)]
                    total += program.trips(one) * max(inner, default=0.0)
                waiting = {name: during + spent for name, during in waiting.items()}
        return total

    return of(program.entry)
