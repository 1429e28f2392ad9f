"""The instructions of a compiled program, and how often one run of it makes each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from redco_fit.compiled.hlo import (
    BRANCHES,
    CALLEE,
    INSTRUCTION,
    OPERAND,
    split,
    trip_count,
)

ARRAY = re.compile(r"\b(pred|[a-z]+\d+\w*)\[([\d,]*)\]")


@dataclass(frozen=True)
class Instruction:
    """One line of a program.

    type: of its result, as text.  rest: its operands and attributes, as text.
    """

    name: str
    type: str
    operation: str
    rest: str


class Program:
    """A program, from its text.

    computations: name -> instructions.  entry: the name of the first to run.
    """

    def __init__(self, text: str):
        self._lines, self.entry = split(text)
        self.computations = {
            name: [Instruction(*match.groups()) for match in map(INSTRUCTION.match, lines) if match]
            for name, lines in self._lines.items()
        }

    @cached_property
    def types(self) -> dict[str, dict[str, str]]:
        """{computation: {instruction: its type}}."""
        return {
            name: {one.name: one.type for one in instructions}
            for name, instructions in self.computations.items()
        }

    def operands(self, computation: str, one: Instruction) -> list[str]:
        """Return the types of the operands of an instruction."""
        names = OPERAND.findall(one.rest.split("), ")[0])
        return [self.types[computation].get(name, "") for name in names]

    def callees(self, one: Instruction) -> list[str]:
        """Return the computations that an instruction names."""
        names = CALLEE.findall(one.rest)
        for branches in BRANCHES.findall(one.rest):
            names += branches.replace("%", "").split(", ")
        return [name for name in names if name in self.computations]

    def trips(self, one: Instruction) -> int:
        """Return how often a loop runs its body; 1 for what is no loop."""
        return trip_count(one.rest, self._lines) if one.operation == "while" else 1

    def within(self, computation: str) -> Iterator[tuple[str, Instruction]]:
        """Yield (computation, instruction) of a computation and of all that it calls, once each."""
        for one in self.computations[computation]:
            yield computation, one
            for callee in self.callees(one):
                yield from self.within(callee)


def shapes(type_: str) -> list[list[int]]:
    """Return the shape of each array of a type."""
    return [[int(dim) for dim in dims.split(",") if dim] for _, dims in ARRAY.findall(type_)]
