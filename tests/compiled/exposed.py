"""The seconds of collectives that a program's devices wait for, with nothing to compute meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from compiled.hlo import KINDS, Collective, size
from compiled.instructions import OPERAND, Instruction, Program


def exposed_seconds(
    program: Program,
    devices: int,
    link: float,
    seconds: Callable[[str, Instruction], float],
) -> float:
    """Return the seconds of collectives, less those of what is computed between their starts and ends.

    link: bytes a second to the other devices.  seconds: of one instruction that is no collective.
    Optimistic: what two collectives wait beside each other counts for both.
    """

    def of(computation: str) -> float:
        waiting, total = {}, 0.0
        for one in program.computations[computation]:
            kind, _, end = one.operation.rpartition("-")
            if one.operation in KINDS:
                total += _seconds(one, one.operation, devices, link)
            elif end == "start" and kind in KINDS:
                waiting[one.name] = 0.0
            elif end == "done" and kind in KINDS:
                during = waiting.pop(OPERAND.findall(one.rest)[0], 0.0)
                total += max(0.0, _seconds(one, kind, devices, link) - during)
            else:
                spent = seconds(computation, one)
                if one.operation in ("while", "call", "conditional"):
                    inner = [of(name) for name in program.callees(one)]
                    total += program.trips(one) * max(inner, default=0.0)
                waiting = {name: during + spent for name, during in waiting.items()}
        return total

    return of(program.entry)


def _seconds(one: Instruction, kind: str, devices: int, link: float) -> float:
    """Return the seconds of a collective, by the instruction that has its result."""
    whole = size(one.type) * (devices if kind == "reduce-scatter" else 1)
    return Collective(kind, whole).sent(devices) / link
