"""Writes estimates.md: how the estimates of redco_fit.search compare with compiled programs.

make table NAME=estimates      half an hour on two cores

A point that the page has already is not compiled again; without the page, all are.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redco_fit.compiling import compile_steps
from redco_fit.reading import Job
from redco_fit.search.estimate import Estimate, estimate_step
from redco_fit.search.model import Planned
from redco_fit.target import parse_target
from redco_new.errors import RedcoError
from redco_new.generate.plan import plan_program
from redco_new.generate.read import read_model
from redco_new.project.create import create_project
from redco_new.render.template import Template, open_template
from redco_new.request import Request
from redco_new.request.checks import RING
from tables.markdown import row as line

PAGE = Path(__file__).with_name("estimates.md")
HEADS = ("estimated ms", "compiled ms", "ratio", "estimated peak GB", "compiled peak GB")
INTRODUCTION = """\
# How the estimates of a search compare with compiled programs

Written by `make table NAME=estimates`: train steps (preset `full`, AdamW, bfloat16) of projects as `redco-new` emits them, on H100s, by
[redco_fit.search](../../../generator/redco_fit/search) from the plan alone, and by XLA's compiler without the devices. B examples of
S tokens over all devices. Both ms are rooflines, with the collectives that nothing is computed beside: the estimate's of the plan,
the compiler's kernel by kernel (`redco fit`). They are bounds, not measurements: of either, `redco fit` and its `--search` make
the seconds of a step by the same division (`step_seconds` of [hardware.py](../../../generator/redco_fit/hardware.py)). A peak
that is estimated is an upper bound: none may be below the compiled one. The compiled ms are from before a collective had a latency,
which the estimates count. On the axis `expert` the program has room for the case that
all rows go to the experts of one device: by both it moves all of that room, and multiplies an even share of it.

"""


@dataclass(frozen=True)
class Point:
    """A step. rows, length: of the batch.  remat, micro: as config.py has them."""

    model: str
    size: str
    mesh: str
    remat: str = "fit"
    rows: int = 16
    length: int = 2048
    micro: int = 1
    zero: int = 0
    sequence_parallel: bool = False
    ring: bool = False

    @property
    def request(self) -> Request:
        """What its project is made of."""
        return Request.from_flags(
            f"{self.model}-project",
            self.model,
            size=self.size,
            mesh=self.mesh,
            zero=self.zero,
            sequence_parallel=self.sequence_parallel,
            context_attention=RING if self.ring else "heads",
            sequence_length=self.length if "context" in self.mesh else 0,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Its fields of config.py."""
        return {"remat": self.remat, "micro_batches": self.micro}

    @property
    def devices(self) -> int:
        return self.request.devices

    @property
    def name(self) -> str:
        """What the page calls it."""
        options = [f"zero {self.zero}"] * bool(self.zero)
        options += ["sequence-parallel"] * self.sequence_parallel
        options += ["in a ring"] * self.ring
        options += [f"{self.micro} micro-batches"] * (self.micro > 1)
        mesh = self.mesh.replace("data=1,", "").replace("=", " ").replace(",", " x ")
        batch = f"B {self.rows}, S {self.length}"
        return ", ".join([f"{self.model} {self.size}", mesh, *options, batch, self.remat])


NOTHING = "nothing_saveable"
SIZES = {"llama": "7b", "gpt-j": "6b", "opt": "6.7b", "qwen3": "8b"}
DENSE = tuple(
    Point(model, size, *rest)
    for model, size in SIZES.items()
    for rest in (
        ("fsdp=8",),
        ("fsdp=8", NOTHING),
        ("fsdp=8", "fit", 64, 2048, 4),
        ("fsdp=4,model=2",),
        ("fsdp=4,model=2", NOTHING),
        ("fsdp=2,model=4", NOTHING),
        ("data=1,model=8",),
        ("data=2,fsdp=4",),
        ("data=2,fsdp=4", NOTHING),
        ("data=4,model=2", NOTHING, 16, 2048, 1, 1),
    )
)
SMALL = (
    Point("llama", "3.2-1b", "data=8"),
    Point("llama", "3.2-1b", "data=8", rows=32, micro=2),
    Point("llama", "3.2-1b", "fsdp=8"),
    Point("llama", "3.2-1b", "fsdp=8", NOTHING),
    Point("llama", "3.2-1b", "data=4,model=2"),
    Point("llama", "3.2-1b", "data=1,model=8", NOTHING),
    Point("gpt2", "xl", "data=8", length=1024),
    Point("gpt2", "xl", "data=8", NOTHING, length=1024),
    Point("gpt2", "xl", "data=4,model=2", NOTHING, length=1024),
    Point("gpt2", "xl", "fsdp=8", length=1024),
    Point("gpt2", "xl", "fsdp=8", NOTHING, length=1024),
)
LARGE = (
    *(
        Point("llama", "3.1-70b", mesh, remat, rows=128)
        for mesh, remat in (
            ("fsdp=64", "fit"),
            ("fsdp=64", NOTHING),
            ("fsdp=16,model=4", "fit"),
            ("fsdp=8,model=8", NOTHING),
            ("data=2,fsdp=32", "fit"),
        )
    ),
    Point("llama", "3.1-70b", "fsdp=8,model=8", rows=128, sequence_parallel=True),
)
EXPERTS = (
    Point("mixtral", "8x7b", "fsdp=32", NOTHING, rows=64),
    Point("mixtral", "8x7b", "fsdp=32", rows=64),
    Point("mixtral", "8x7b", "fsdp=8,model=4", rows=64),
    Point("mixtral", "8x7b", "fsdp=4,expert=8", NOTHING, rows=64),
    Point("mixtral", "8x7b", "fsdp=8,expert=4", rows=64),
    Point("mixtral", "8x22b", "fsdp=32", NOTHING, rows=64, length=4096),
    Point("mixtral", "8x22b", "fsdp=4,model=8", NOTHING, rows=32, length=4096),
    Point("qwen3-moe", "30b-a3b", "fsdp=16", NOTHING, rows=32, length=4096),
    Point("qwen3-moe", "30b-a3b", "fsdp=16", rows=32, length=4096),
    Point("qwen3-moe", "30b-a3b", "fsdp=4,expert=4", NOTHING, rows=32),
)
BEYOND = (
    Point("llama", "7b", "context=8", rows=1, length=131072),
    Point("llama", "7b", "context=8", rows=1, length=131072, ring=True),
    Point("llama", "7b", "fsdp=2,context=4", NOTHING, rows=4, length=32768),
    Point("llama", "3.1-70b", "stage=8,model=8", rows=128, sequence_parallel=True),
    Point("llama", "3.1-70b", "stage=8,data=2,model=4", NOTHING, rows=128, zero=1),
)
POINTS = (*DENSE, *SMALL, *LARGE, *EXPERTS, *BEYOND)


def estimate(point: Point, template: Template) -> Estimate:
    """Return the estimate of a point."""
    request = point.request
    program = read_model(request, template).program()
    model = Planned(request, program, plan_program(request, program), True, point.length)
    target = parse_target(f"h100:{point.devices}")
    return estimate_step(model, target, point.rows, point.micro, point.remat)


def compile_points(points: Iterable[Point]) -> Iterator[tuple[Point, float, int]]:
    """Yield each point with the seconds and the peak of its program; those of one project together."""

    def project(point: Point) -> Point:
        length = point.length if "context" in point.mesh else 0
        return replace(point, remat="", rows=0, length=length, micro=0)

    for _, group in itertools.groupby(points, project):
        group = list(group)
        with tempfile.TemporaryDirectory() as folder:
            path = create_project(group[0].request, Path(folder))
            target = parse_target(f"h100:{group[0].devices}")
            jobs = [Job({}, one.rows, one.length, one.settings) for one in group]
            for point, outcome in zip(group, compile_steps(path, target, jobs), strict=True):
                if isinstance(outcome, RedcoError):
                    raise outcome
                yield point, outcome.bound_seconds, outcome.peak_bytes


def agreement(pairs: list[tuple[float, float]]) -> float:
    """Return Kendall's tau of pairs: of all two of them, the share in one order less that in the other."""
    products = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    signs = [(one > 0) - (one < 0) for one in products]
    return sum(signs) / max(1, len(signs))  # of one pair nothing


def read(text: str) -> dict[str, list[str]]:
    """Return {name of a point: its cells} of the page."""
    rows = [part[2:-2].split(" | ") for part in text.splitlines() if part.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


def written(cells: dict[str, list[str]]) -> str:
    """Return the page, of {name of a point: its cells}."""
    models: dict[str, list[tuple[float, float]]] = {}
    for point in POINTS:
        if own := cells.get(point.name):
            models.setdefault(f"{point.model} {point.size}", []).append(
                (float(own[0]), float(own[1]))
            )
    every = [pair for pairs in models.values() for pair in pairs]
    ratios = sorted(estimated / compiled for estimated, compiled in every)
    slack = [float(own[3]) / float(own[4]) for own in cells.values()]
    each = ", ".join(
        f"{name} {agreement(pairs):.2f} ({len(pairs)})"
        for name, pairs in models.items()
        if len(pairs) > 1
    )
    lines = [
        f"Kendall's tau of {len(every)} points: {agreement(every):.2f}. Of the points of one model alone: {each}.",
        "",
        f"Estimated of compiled seconds: {ratios[0]:.2f} to {ratios[-1]:.2f}, in the middle {ratios[len(ratios) // 2]:.2f}. "
        f"Estimated of compiled peaks: {min(slack):.2f} to {max(slack):.2f}.",
        "",
        line("step", HEADS),
        "|---" * (1 + len(HEADS)) + "|",
    ]
    lines += [line(point.name, cells[point.name]) for point in POINTS if point.name in cells]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main() -> None:
    cells = read(PAGE.read_text()) if PAGE.exists() else {}
    fresh = (point for point in POINTS if point.name not in cells)
    for point, seconds, peak in compile_points(fresh):
        cells[point.name] = ["0", f"{1e3 * seconds:.0f}", "", "0", f"{peak / 1e9:.1f}"]
        PAGE.write_text(written(cells))
        print(point.name, cells[point.name], flush=True)
    with open_template() as template:
        for point in POINTS:
            one, own = estimate(point, template), cells[point.name]
            milliseconds = 1e3 * one.bound_seconds
            own[0], own[2] = f"{milliseconds:.0f}", f"{milliseconds / float(own[1]):.2f}"
            own[3] = f"{one.memory.peak / 1e9:.1f}"
    PAGE.write_text(written(cells))


if __name__ == "__main__":
    main()
