"""Products of groups of rows, each with a kernel of its own: what the experts of a model compute.

Their arrays have room for groups of any sizes (redco_runtime/nn/experts/expert_rows.py): of each group, all but one row of a last
block may fill that up. What is counted is the mean over sizes of groups: half of these rows, and nothing of the
blocks that no group has.

Shape letters: R rows, E groups, K and N the dims of a kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import gcd, prod

from redco_fit.compiled.instructions import Instruction, Program, shapes

TRITON = "__gpu$xla.gpu.triton"
RAGGED = re.compile(r'ragged_dot_tiling="(\d+),')  # libtpu's kernel: rows of a tile
ROOM = 1.25  # of an even share of rows: of redco_runtime/nn/experts/expert_rows.py
# Of redco_runtime/nn/experts/grouped_matmul.py: columns of a tile; what it sums over at once; steps that are loaded before it multiplies.
TILE, STEP, AHEAD = 128, 64, 3


@dataclass(frozen=True)
class Groups:
    """A product of groups of rows on a device, forward or backward.

    rows: that are multiplied, in the mean.  groups: kernels that are here.  inner, columns: K and N.
    block: rows of a block.  of_kernels: whether it is the gradient of the kernels, which sums over rows.
    """

    rows: float
    groups: int
    inner: int
    columns: int
    block: int
    of_kernels: bool = False

    @property
    def flops(self) -> float:
        """FLOPs of these rows."""
        return 2 * self.rows * self.inner * self.columns

    @property
    def read(self) -> float:
        """Bytes of bfloat16 that Triton's tiles read of the L2, those that none multiplies beside counted as often as they wait.

        A tile of a x b reads a + b numbers for 2 a b FLOPs: all SMs together are bound by the L2, not by their products.
        """
        if self.of_kernels:
            sides, steps = (self.inner, self.columns), self.rows / self.groups / self.block
            high, wide = (gcd(side, TILE) for side in sides)
        else:
            high, wide = self.block, gcd(self.columns, TILE)
            steps = self.inner / gcd(self.inner, STEP)
        return self.flops * (1 / high + 1 / wide) * (1 + AHEAD / max(1.0, steps))


def mean_rows(chosen: float, groups: int, block: int) -> float:
    """Return the rows that groups have, of `chosen` rows that are sent to them, and of those that fill up blocks."""
    return chosen + groups * (block - 1) / 2


def groups_of(program: Program, computation: str, one: Instruction, parts: int) -> Groups | None:
    """Return the product of groups of rows that an instruction is; None for anything else.

    parts: in how many the devices split the experts. A device has a little more room then than its share of the rows.
    """
    tiling = RAGGED.search(one.rest)
    if one.operation != "custom-call" or not (tiling or TRITON in one.rest):
        return None
    *_, left, right = (shapes(type_)[0] for type_ in program.operands(computation, one))
    (result,) = shapes(one.type)
    (room, inner), stack = left, max(right, result, key=len)
    count, of_kernels = stack[0], len(result) == 3
    block = int(tiling[1]) if tiling else _block(program, room)
    assert inner in stack, f"{one.name}: no product of groups"
    columns = prod(stack[1:]) // inner
    chosen = (room - count * (block - 1)) / (ROOM if parts > 1 else 1)
    return Groups(mean_rows(chosen, count, block), count, inner, columns, block, of_kernels)


@cache
def _block(program: Program, rows: int) -> int:
    """Return the rows of a block, of the products of groups that take `rows` in all."""
    for computation, instructions in program.computations.items():
        for one in instructions:
            if one.operation == "custom-call" and TRITON in one.rest:
                first, *others = (shapes(t)[0] for t in program.operands(computation, one))
                if others[0][0] == rows:
                    return rows // first[0]
    raise ValueError(f"no product of groups says into how many blocks {rows} rows are split")
