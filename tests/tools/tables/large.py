"""Writes large.md: the largest models, each with the mesh that a search finds, and what the compiler says of it.

make table NAME=large [ROW ...]      twenty minutes on two cores

With names of rows, others stay.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from redco_fit.hardware import SHARE, SHARE_BY_DEFAULT
from redco_fit.reading import Reading
from redco_fit.search.best import Search
from redco_fit.search.candidates import Trial
from redco_fit.search.choice import does_not_fit, search_for
from redco_fit.search.compile_best import compile_best
from redco_new.request import Request
from tables.markdown import row as line
from tables.performance import read

PAGE = Path(__file__).with_name("large.md")
COLUMNS = ("mesh", "B x S", "micro-batches", "estimated ms", "estimated MFU", "estimated peak GB")
COLUMNS += ("compiled peak GB", "of GB", "verdict", "search s", "compile s")
INTRODUCTION = """\
# The largest models, by a search and by the compilers

Written by `make table NAME=large`: `redco fit --search` of models at full size, parameters and AdamW in float32, computing in bfloat16. The
mesh, options and micro-batches are those that the estimate finds fastest; the compiler of the machine has the last word. B
examples of S tokens over all devices; of a GPU's memory JAX takes three quarters by default. Estimated ms and MFU are, of GPUs, at
the share of the roofline's speed that steps on an H100 reach ([RESULTS.md](../device/RESULTS.md)); of TPUs, on which none
was timed, at all of it, which no program reaches. Seconds: on two busy cores. Meta's AutoParallel plans Llama-3-8B in 46.8 s and 2.8
GiB (meta-pytorch/autoparallel #521); a search of Llama-3.1-70B on 64 devices takes 0.33 GB, and the seconds below. Where nothing fits by
the estimate, the smallest few are compiled, but not those whose state and gradients alone, which are exact, are more than a device has.

"""


@dataclass(frozen=True)
class Row:
    """A model on a machine. rows, length: the batch.  share: of a GPU's memory, that JAX is to take."""

    model: str
    size: str
    hardware: str
    rows: int
    length: int = 4096
    share: float = SHARE_BY_DEFAULT

    @property
    def name(self) -> str:
        """What the page calls it."""
        share = "" if self.share == SHARE_BY_DEFAULT else f" at {self.share} of its memory"
        return f"{self.model} {self.size}, {self.hardware}{share}"


# Two examples of 4,096 tokens a device: 1 to 8 million tokens a step, as models of these sizes are trained with; on
# 32 devices a quarter of that, and half of this where more does not fit. v5p-128 and v5p-1024 are Google's names, by cores: 64 and 512 chips.
ROWS = (
    Row("llama", "3.1-70b", "h100:8x8", 128),
    Row("llama", "3.1-70b", "v5p:4x4x4", 128),
    Row("mixtral", "8x22b", "h100:4x8", 64),
    Row("mixtral", "8x22b", "h100:4x8", 32, share=0.95),
    Row("llama", "3.1-405b", "h100:64x8", 1024),
    Row("llama", "3.1-405b", "v5p:8x8x8", 1024),
)


def measure(row: Row) -> tuple[Search, Trial | None, Reading | None, str]:
    """Return what a search came to, and what the compiler says of the best."""

    def say(step: str) -> None:
        print("...", step, flush=True)

    os.environ[SHARE] = str(row.share)
    request = Request.from_flags("large", row.model, size=row.size)
    result = search_for(request, row.hardware, row.rows, row.length, say)
    return result, *compile_best(request, result, row.length, say)


def cells_of(
    row: Row, result: Search, best: Trial | None, reading: Reading | None, note: str
) -> list[str]:
    """Return the cells of a row, by COLUMNS."""
    one = best or result.best or result.nearest
    assert one is not None, "some mesh divides the batch"
    limit = result.target.hardware.usable
    compiled = [f"{reading.peak_bytes / 1e9:.1f}"] if reading else [""]
    reason = note or ("" if best else does_not_fit(result))
    verdict = (", though " if reading else "; ").join(
        filter(None, ["fits" if reading else "no", reason])
    )
    return [
        one.name,
        f"{row.rows} x {row.length}",
        str(one.micro_batches),
        f"{1e3 * one.seconds:.0f}",
        f"{one.mfu:.2f}",
        f"{'over ' * (one.state > limit)}{one.peak / 1e9:.1f}",
        *compiled,
        f"{limit / 1e9:.1f}",
        verdict,
        f"{result.seconds:.0f}",
        f"{reading.compile_seconds:.0f}" if reading else "",
    ]


def written(cells: dict[str, list[str]]) -> str:
    """Return the page, of {name of a row: its cells}."""
    lines = [line("model and machine", COLUMNS), "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [line(row.name, cells[row.name]) for row in ROWS if row.name in cells]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main() -> None:
    chosen = sys.argv[1:] or [row.name for row in ROWS]
    for row in ROWS:
        if row.name in chosen:
            cells = read(PAGE.read_text()) if PAGE.exists() else {}
            cells[row.name] = cells_of(row, *measure(row))
            PAGE.write_text(written(cells))
            print(row.name, cells[row.name], flush=True)


if __name__ == "__main__":
    main()
