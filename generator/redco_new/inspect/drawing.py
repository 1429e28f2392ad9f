"""Parameters -> rectangles to scale, cut into the parts that devices hold."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from redco_plan import FSDP

from redco_new.inspect.classes import star_layers
from redco_new.inspect.schema import ParameterRow

# Pixels of a page on which a card is at least 360 wide (page.html.jinja), so that a drawing with its
# sheets and bands fits into a card.
LONGEST = 220  # the side of the largest dim
THINNEST = 4  # no side is drawn shorter, so that its colour can be seen
BAR = 10  # the height of an array of one dim
OFFSET = 3  # between sheets
BAND, GAP = 5, 3  # of the bands along the sides
CUT = 2  # of the lines across
# Sheets that are drawn of a stack: a few hint at one that is not split, and of one that is split each
# part has its own, up to what fits beside a side of LONGEST.
SHEETS = 4
MOST_SHEETS = 16
WHOLE = "whole"  # the colour of what no axis splits
NONE = "none"  # that of a page's card
# Dims of which each index has an array of its own, and which are drawn one behind the other.
STACKED = ("layers", "experts", "window")


@dataclass
class Side:
    """A side of a rectangle: some dims side by side, the first of which is cut into parts.

    sizes: of the dims
    labels: of the dims
    axes: mesh axes that cut the first dim
    parts: how many they make
    """

    sizes: list[int]
    labels: list[str]
    axes: list[str] = field(default_factory=list)
    parts: int = 1

    @property
    def size(self) -> int:
        """The elements along the side."""
        return math.prod(self.sizes)

    def add(self, other: Side) -> None:
        """Put a dim that is whole behind these."""
        self.sizes += other.sizes
        self.labels += other.labels


NOTHING = Side([1], [])


@dataclass(frozen=True)
class Stripe:
    """A rectangle of one axis, in pixels.

    x, y: its upper left corner
    width, height: its size
    colour: the axis, WHOLE or NONE
    shade: 0 or 1, which alternate from part to part
    """

    x: float
    y: float
    width: float
    height: float
    colour: str
    shade: int = 0


@dataclass(frozen=True)
class Drawing:
    """A stack of rectangles of `width` by `height` pixels.

    width, height: of each rectangle
    sheets: how far back those behind the first one lie, farthest first
    stack: what is stacked, in words
    stack_colour: the axis that splits the stack, or WHOLE
    stripes: parts of the side that the model's axis cuts, or else fsdp
    cuts: lines across them where the other side is cut
    bands: along each side that is cut, its parts, axis by axis
    mine: width and height of the part of one device
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
        """How far the farthest sheet lies behind the first rectangle, in pixels."""
        return max(self.sheets, default=0)

    def rectangles(self) -> list[tuple[str, Stripe]]:
        """Return what is drawn, the farthest first, each with its kind."""
        place = (self.width, self.height)
        behind = NONE if self.stack_colour == WHOLE else self.stack_colour
        kinds = {
            "sheet": [Stripe(back, -back, *place, behind) for back in self.sheets],
            "face": [Stripe(0, 0, *place, NONE if self.stripes else self.stack_colour)],
            "stripe": self.stripes,
            "cut": self.cuts,
            "band": self.bands,
            "mine": [Stripe(0, 0, *self.mine, NONE)],
        }
        return [(kind, one) for kind, some in kinds.items() for one in some]


def group_layers(rows: list[ParameterRow]) -> list[list[ParameterRow]]:
    """Return rows in groups that differ by the number of a layer only."""
    groups: dict[str, list[ParameterRow]] = defaultdict(list)
    for row in rows:
        same = {k: v for k, v in row.items() if k != "path"}
        groups[f"{star_layers(row['path'])} {same}"].append(row)
    return list(groups.values())


def draw_parameter(row: ParameterRow, mesh: dict[str, int], longest: int) -> Drawing:
    """Draw one parameter. The side of a dim is in proportion to the square root of its size.

    longest: the size of the largest dim of all parameters
    """
    stack, rest = _split_sides(row, mesh)
    stack, rest = stack + rest[:-2], rest[-2:]
    across = rest[-1] if rest else NOTHING
    down = rest[0] if len(rest) == 2 else NOTHING
    width = _side_pixels(across.size, longest) if rest else BAR
    height = _side_pixels(down.size, longest) if len(rest) == 2 else BAR
    columns = _part_stripes(across, width, height)
    lines = _transpose(_part_stripes(down, height, width))
    lines_first = lines and (not columns or columns[0].colour == FSDP)
    parts, others = (lines, columns) if lines_first else (columns, lines)
    return Drawing(
        width=width,
        height=height,
        sheets=[OFFSET * i for i in range(_count_sheets(stack) - 1, 0, -1)],
        stack=", ".join(map(_side_text, stack)),
        stack_colour=next((_side_colour(side) for side in stack if side.parts > 1), WHOLE),
        stripes=parts,
        cuts=[_cut_line(stripe, bool(lines_first)) for stripe in others[1:]],
        bands=_axis_bands(across, mesh, width, height)
        + _transpose(_axis_bands(down, mesh, height, -2 * GAP - BAND * len(down.axes))),
        mine=(round(width / across.parts, 2), round(height / down.parts, 2)),
    )


def _part_stripes(side: Side, length: float, breadth: float) -> list[Stripe]:
    """Return the parts of a side, from left to right; none if it is whole."""
    step = length / side.parts
    return [
        Stripe(round(i * step, 2), 0, round(step, 2), breadth, _side_colour(side), i % 2)
        for i in range(side.parts)
        if side.parts > 1
    ]


def _axis_bands(side: Side, mesh: dict[str, int], length: float, beyond: float) -> list[Stripe]:
    """Return one row of parts for each axis that cuts a side, the coarsest first, from `beyond` on."""
    rows: list[Stripe] = []
    parts = 1
    for i, axis in enumerate(side.axes):
        parts *= mesh[axis]
        cut = _part_stripes(replace(side, axes=[axis], parts=parts), length, BAND)
        rows += [replace(stripe, y=beyond + GAP + i * BAND) for stripe in cut]
    return rows


def _transpose(stripes: list[Stripe]) -> list[Stripe]:
    """Return stripes from left to right as stripes from top to bottom."""
    return [replace(s, x=s.y, y=s.x, width=s.height, height=s.width) for s in stripes]


def _cut_line(stripe: Stripe, upright: bool) -> Stripe:
    """Return the line where a part begins; `upright` where the parts lie side by side."""
    if upright:
        return replace(stripe, x=round(stripe.x - CUT / 2, 2), width=CUT)
    return replace(stripe, y=round(stripe.y - CUT / 2, 2), height=CUT)


def _side_text(side: Side) -> str:
    """Return `8 experts in 2 parts`."""
    parts = f" in {side.parts} parts" if side.parts > 1 else ""
    return f"{side.size} {' '.join(side.labels)}{parts}"


def _count_sheets(stack: list[Side]) -> int:
    """Return how many sheets are drawn: one for each part, up to a limit; a few if it is whole."""
    count, parts = (math.prod(getattr(s, name) for s in stack) for name in ("size", "parts"))
    return min(parts, MOST_SHEETS) if parts > 1 else min(count, SHEETS)


def _split_sides(row: ParameterRow, mesh: dict[str, int]) -> tuple[list[Side], list[Side]]:
    """Return (dims that are stacked, dims that are sides). A dim that is whole lies behind its major one."""
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


def _side_pixels(size: int, longest: int) -> float:
    """Return the length of a side, by the square root of its size."""
    return round(max(THINNEST, LONGEST * math.sqrt(size / longest)), 1)


def _side_colour(side: Side) -> str:
    """Return the axis whose colour a side has: of several, the one that comes first."""
    return side.axes[0] if side.axes else WHOLE
