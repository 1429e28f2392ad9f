"""Writes table1.md: Table 1 of the Redco paper, each model compiled at full size for the paper's machines.

make table NAME=table1      five minutes on two cores

All of it is written at once, when all rows are compiled. What `redco fit` says is what stands in it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from redco_fit.compiling import compile_step
from redco_fit.reading import Job, Reading
from redco_fit.target import parse_target
from redco_new.project.create import create_project
from redco_new.request import Request
from redco_new.request.mesh import parse_mesh
from tables.markdown import row as line

TABLE = Path(__file__).with_name("table1.md")


@dataclass(frozen=True)
class Row:
    """A model on a machine. server: as the paper calls it.  length: of texts.  fits: whether it must."""

    server: str
    target: str
    axes: str
    model: str
    size: str
    length: int
    fits: bool = True

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.server}, {self.model} {self.size}"


SERVERS = {
    "2 x 1080Ti": ("1080ti:2", "model=2"),
    "4 x A100": ("a100-40g:4", "model=4"),
    "2 x TPU-v4": ("v4:2x2x2", "model=8"),
    "16 x TPU-v4": ("v4:4x4x4", "fsdp=16,model=4"),
}
# (server, model, size, length): those of the paper, then for each server the next size that there is of such a model.
PAPER = (
    ("2 x 1080Ti", "bart", "large", 1024),
    ("2 x 1080Ti", "gpt2", "large", 512),
    ("4 x A100", "llama", "1-7b", 1024),
    ("4 x A100", "gpt-j", "6b", 1024),
    ("2 x TPU-v4", "t5", "v1_1-xxl", 512),
    ("2 x TPU-v4", "opt", "13b", 1024),
    ("16 x TPU-v4", "opt", "66b", 512),
)
LARGER = (
    ("2 x 1080Ti", "gpt2", "xl", 512),
    ("4 x A100", "llama", "1-13b", 1024),
    ("2 x TPU-v4", "opt", "30b", 1024),
    ("16 x TPU-v4", "llama", "3.1-405b", 512),
)
ROWS = tuple(
    Row(server, *SERVERS[server], *model, fits=rows is PAPER)
    for rows in (PAPER, LARGER)
    for server, *model in rows
)
COLUMNS = (
    "mesh",
    "length",
    "batch",
    "verdict",
    "peak GiB",
    "of GiB",
    "arguments GiB",
    "saved",
    "seconds",
)
INTRODUCTION = """\
# Table 1 of the Redco paper, by the compilers

Written by `make table NAME=table1`: the models that the paper ([arXiv 2310.16355](https://arxiv.org/abs/2310.16355)) fine-tunes in full
precision with AdamW, on its machines, as `redco fit` compiles them: at full size, float32, split by `model`, as Redco does, and on
64 chips by `fsdp` too. The paper gives no batches: they are the smallest that the mesh allows. Texts are of the paper's length;
of models with an encoder, both texts.
The paper's seven come first, then for each machine the next size, which must be refused: of OPT, 175B was never released to all, so
there it is Llama's.

A TPU's verdict is its compiler's own; of GPUs the peak is held against what JAX takes by default, three quarters of the
memory. Saved: what layers keep for the backward pass, chosen by the memory; all else is computed
again. Seconds: to trace, lower and compile, on two cores. Larger models, with searched meshes: [large.md](large.md).

"""


def measure(row: Row, folder: Path) -> Reading:
    """Return what the compiler of a row's machine says of it."""
    name = f"{row.model}-{row.size}".replace(".", "-").replace("_", "-")
    request = Request.from_flags(
        f"a-{name}", row.model, size=row.size, mesh=row.axes, dtype="float32"
    )
    project = create_project(request, folder)
    lengths = {"target_length": row.length} if row.model in ("bart", "t5") else {}
    mesh = parse_mesh(None, row.axes)
    job = Job(mesh, batch=mesh["fsdp"], length=row.length, settings=lengths)
    target = parse_target(row.target)
    return compile_step(project, target, job, lambda step: print("...", step, flush=True))


def cells_of(row: Row, reading: Reading) -> list[str]:
    """Return the cells of a row, by COLUMNS."""
    gib = [
        f"{size / 2**30:.1f}" if size else ""
        for size in (reading.peak_bytes, reading.limit_bytes, reading.argument_bytes)
    ]
    verdict = "fits" if reading.fits else "refused"
    saved = reading.remat.partition("saved: ")[2].partition(";")[0] if reading.fits else ""
    seconds = f"{reading.compile_seconds:.0f}"
    return [
        row.axes.replace("=", " "),
        str(row.length),
        str(reading.batch),
        verdict,
        *gib,
        saved,
        seconds,
    ]


def written(cells: dict[str, list[str]]) -> str:
    """Return the whole file, of {name of a row: its cells}."""
    lines = [line("server, model", COLUMNS), "|---" * (1 + len(COLUMNS)) + "|"]
    lines += [line(row.name, cells[row.name]) for row in ROWS]
    return INTRODUCTION + "\n".join(lines) + "\n"


def main() -> None:
    cells: dict[str, list[str]] = {}
    for row in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            cells[row.name] = cells_of(row, measure(row, Path(folder)))
        print(row.name, cells[row.name], flush=True)
    TABLE.write_text(written(cells))


if __name__ == "__main__":
    main()
