"""Parameters -> rectangles to scale, cut into the parts that devices hold."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from redco_new.inspect.classes import star
from redco_new.sharding import FSDP

LONGEST = 220  # pixels: the side of the largest dim
THINNEST = 4  # pixels: no side is drawn shorter
BAR = 10  # pixels: the height of an array of one dim
SHEETS = 4  # sheets that are drawn of a stack that is not split
MOST_SHEETS = 16
OFFSET = 3  # pixels between sheets
BAND, GAP = 5, 3  # pixels: of the bands along the sides
CUT = 2  # pixels: of the lines across
WHOLE = "whole"  # the colour of what no axis splits
STACKED = ("layers", "experts", "window")

Row = dict[str, Any]


@dataclass
class Side:
    """A side of a rectangle: some dims side by side, the first of which is cut into parts."""

    sizes: list[int]
    labels: list[str]
    axes: list[str] = field(default_factory=list)
    parts: int = 1

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    def add(self, other: Side) -> None:
        """Put a dim that is whole behind these."""
        self.sizes += other.sizes
        self.labels += other.labels


NOTHING = Side([1], [])


@dataclass(frozen=True)
class Stripe:
    """A rectangle of one axis, in pixels; `shade` alternates from part to part."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    shade: int = 0


@dataclass(frozen=True)
class Drawing:
    """A stack of rectangles of `width` by `height` pixels.

    sheets: how far back those behind the first one lie, farthest first.  stack: what is stacked.
    stripes: parts of the side that the model's axis cuts, or else fsdp.  cuts: lines across them
    where the other side is cut.  bands: along each side that is cut, its parts, axis by axis.
    mine: width and height of the part of one device.
    """

    width: float
    height: float
    sheets: list[int]
    stack: str
    stack_colour: str
    stripes: list[Stripe]
    cuts: list[Stripe]
    bands: list[Stripe]
    mine: tuple[float, float]

    @property
    def front(self) -> int:
        return max(self.sheets, default=0)


def alike(rows: list[Row]) -> list[list[Row]]:
    """Rows in groups that differ by the number of a layer only."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        same = {k: v for k, v in row.items() if k != "path"}
        found[f"{star(row['path'])} {same}"].append(row)
    return list(found.values())


def draw(row: Row, mesh: dict[str, int], longest: int) -> Drawing:
    """One parameter; `longest` is the size of the largest dim of all parameters.

    The side of a dim is in proportion to the square root of its size.
    """
    stack, rest = sides(row, mesh)
    stack, rest = stack + rest[:-2], rest[-2:]
    across = rest[-1] if rest else NOTHING
    down = rest[0] if len(rest) == 2 else NOTHING
    width = pixels(across.size, longest) if rest else BAR
    height = pixels(down.size, longest) if len(rest) == 2 else BAR
    columns, rows = stripes(across, width, height), turned(stripes(down, height, width))
    by_rows = rows and (not columns or columns[0].colour == FSDP)
    parts, others = (rows, columns) if by_rows else (columns, rows)
    return Drawing(
        width=width,
        height=height,
        sheets=[OFFSET * i for i in range(sheets(stack) - 1, 0, -1)],
        stack=", ".join(map(told, stack)),
        stack_colour=next((colour(side) for side in stack if side.parts > 1), WHOLE),
        stripes=parts,
        cuts=[line(stripe, bool(by_rows)) for stripe in others[1:]],
        bands=bands(across, mesh, width, height)
        + turned(bands(down, mesh, height, -2 * GAP - BAND * len(down.axes))),
        mine=(round(width / across.parts, 2), round(height / down.parts, 2)),
    )


def stripes(side: Side, length: float, breadth: float) -> list[Stripe]:
    """The parts of a side, from left to right; none if it is whole."""
    step = length / side.parts
    return [
        Stripe(round(i * step, 2), 0, round(step, 2), breadth, colour(side), i % 2)
        for i in range(side.parts)
        if side.parts > 1
    ]


def bands(side: Side, mesh: dict[str, int], length: float, beyond: float) -> list[Stripe]:
    """One row of parts for each axis that cuts a side, the coarsest first, from `beyond` on."""
    found, parts = [], 1
    for i, axis in enumerate(side.axes):
        parts *= mesh[axis]
        cut = stripes(replace(side, axes=[axis], parts=parts), length, BAND)
        found += [replace(stripe, y=beyond + GAP + i * BAND) for stripe in cut]
    return found


def turned(found: list[Stripe]) -> list[Stripe]:
    """Stripes from top to bottom."""
    return [replace(s, x=s.y, y=s.x, width=s.height, height=s.width) for s in found]


def line(stripe: Stripe, upright: bool) -> Stripe:
    """The line where a part begins."""
    if upright:
        return replace(stripe, x=round(stripe.x - CUT / 2, 2), width=CUT)
    return replace(stripe, y=round(stripe.y - CUT / 2, 2), height=CUT)


def told(side: Side) -> str:
    """`8 experts in 2 parts`."""
    parts = f" in {side.parts} parts" if side.parts > 1 else ""
    return f"{side.size} {' '.join(side.labels)}{parts}"


def sheets(stack: list[Side]) -> int:
    """How many sheets are drawn: one for each part, up to a limit; a few if it is whole."""
    count, parts = (math.prod(getattr(s, name) for s in stack) for name in ("size", "parts"))
    return min(parts, MOST_SHEETS) if parts > 1 else min(count, SHEETS)


def sides(row: Row, mesh: dict[str, int]) -> tuple[list[Side], list[Side]]:
    """(dims that are stacked, dims that are sides). A dim that is whole lies behind its major one."""
    stack: list[Side] = []
    rest: list[Side] = []
    for size, label, entry in zip(row["stored_shape"], row["dims"], row["spec"], strict=True):
        axes = [entry] if isinstance(entry, str) else entry or []
        axes = [axis for axis in axes if mesh[axis] > 1]
        side = Side([size], [label], axes, math.prod(mesh[axis] for axis in axes))
        (stack if label in STACKED else rest).append(side)
    if len(rest) < 2:  # a router is no stack: its experts are a dim like any other
        rest += [side for side in stack if side.labels == ["experts"]]
        stack = [side for side in stack if side.labels != ["experts"]]
    while len(rest) > 2:
        i = next((i for i in range(len(rest) - 1, 0, -1) if rest[i].parts == 1), None)
        if i is None:
            break
        rest[i - 1].add(rest.pop(i))
    return stack, rest


def pixels(size: int, longest: int) -> float:
    """The length of a side, by the square root of its size."""
    return round(max(THINNEST, LONGEST * math.sqrt(size / longest)), 1)


def colour(side: Side) -> str:
    """The axis whose colour a side has: of several, the one that comes first."""
    return side.axes[0] if side.axes else WHOLE
