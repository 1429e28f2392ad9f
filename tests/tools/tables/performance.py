"""Writes performance.md, the table of how near to the machine's limit the steps of projects are.

make table NAME=perf [ROW ...]      ten minutes on two cores

compiles what is emitted, without a flag but those of the row. With names of rows, others stay.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from redco_new.project.create import create_project
from redco_new.request import Request
from tables.collectives import run_module
from tables.markdown import row as line

TABLE = Path(__file__).with_name("performance.md")


@dataclass(frozen=True)
class Row:
    """A program. size: of the family.  rows, length: the batch, over all devices; its tokens.

    remat: the model's, "" for what is emitted.  reason: why its bound is below GOAL.
    """

    model: str
    size: str
    rows: int
    length: int
    target: str = "h100"
    axes: str = "fsdp=8"
    remat: str = ""
    reason: str = ""

    @property
    def mesh(self) -> dict[str, int]:
        """Its axes and their sizes."""
        return {axis: int(size) for axis, size in (x.split("=") for x in self.axes.split(","))}

    @property
    def name(self) -> str:
        """What the table calls it."""
        mesh = "1 device" if self.axes == "data=1" else self.axes.replace("=", " ")
        remat = f", {self.remat}" if self.remat else ""
        return (
            f"{self.model} {self.size}, {self.target} {mesh}, B {self.rows}, S {self.length}{remat}"
        )


# Two rows a device, and the longest text that all of them take; the published sizes nearest to 8B.
ROWS = (
    Row("llama", "3.2-1b", 8, 2048, axes="data=1"),
    Row("llama", "7b", 16, 2048),
    Row("llama", "3.1-8b", 8, 8192),
    Row("gpt-j", "6b", 16, 2048),
    Row("gpt-neox", "20b", 16, 2048),
    Row("gpt2", "xl", 16, 1024),
    Row("opt", "6.7b", 16, 2048),
    Row("mistral", "7b-v0.3", 16, 2048),
    Row("qwen2", "2.5-7b", 16, 2048),
    Row("qwen3", "8b", 16, 2048),
    Row("phi-3", "medium-4k", 16, 2048),
    Row("gemma2", "9b", 16, 2048),
    Row("gemma3", "1b", 16, 2048),
    # Their states do not fit in 8 devices.
    Row(
        *("mixtral", "8x7b", 64, 2048),
        axes="fsdp=32",
        reason="fsdp sends all 8 experts to each device, and a token is multiplied with 2 of them",
    ),
    Row(
        *("qwen3-moe", "30b-a3b", 64, 2048),
        axes="fsdp=32",
        reason="fsdp sends all 128 experts to each device, and a token is multiplied with 8 of them",
    ),
    Row(
        *("qwen3-moe", "30b-a3b", 64, 2048),
        axes="fsdp=4,expert=8",
        reason="rows of 128 small experts are sorted, moved and summed up, with 4,096 tokens a device",
    ),
    Row(
        *("qwen3-moe", "30b-a3b", 256, 2048),
        axes="fsdp=4,expert=8",
        reason="the same, with four times the tokens, and less that a layer can save",
    ),
    Row("llama", "7b", 32, 2048, target="v5p:2x2x2"),
    # What MaxText's is compiled with, whose peak is 18.2 GiB.
    Row("llama", "7b", 32, 2048, target="v5p:2x2x2", remat="nothing_saveable"),
)
GOAL = 0.55  # of the bound
COLUMNS = {
    "bound": "bound",
    "products": "products %",
    "attention": "attention %",
    "other": "memory %",
    "peak": "peak GiB",
    "ratio": "FLOPs / model FLOPs",
    "waited": "waited ms",
    "squares": "S x S GB",
    "gathered": "gathered GB",
    "scattered": "scattered GB",
}
INTRODUCTION = """\
# How near to the machine's limit compiled steps are

Written by `make table NAME=perf`: the train step (preset `full`, AdamW) of projects as `redco-new` emits them, compiled
without devices, with no flag but the batch of the row (B examples of S tokens over all devices). Per device and step:

- bound: the share of the machine's dense bf16 peak that the step can reach at most, by
  [roofline.py](../../../generator/redco_fit/compiled/roofline.py): model FLOPs / peak / the seconds of all kernels one after the other, or of the
  collectives if they take longer. Not a measurement: it ranks programs.
- products, attention, memory: what the kernels' seconds go to. Products at the peak, cuDNN's attention at 0.6 of it, and
  kernels that read and write only, at the bandwidth. What is left to 1: FLOPs that are no model FLOPs, and the two last.
- peak: GiB of arguments and temporaries.
- FLOPs / model FLOPs: of the products, of cuDNN's attention, and of experts, in the mean over how many tokens choose
  each; 1.00 where nothing is computed twice. Model FLOPs: 6 a token and parameter that it is multiplied with, and
  those of causal attention (Kaplan et al. 2020).
- waited: for collectives, with nothing to compute meanwhile ([exposed.py](../../../generator/redco_fit/compiled/exposed.py)), at 360 GB/s of NVLink.
- S x S: bytes read and written of arrays with two dims of S. Where there are some, counted again with S + 128,
  for S may be a width of the model.
- gathered, scattered: bytes of the whole arrays.

On a TPU the bound, the FLOPs and what is sent are not read: its kernels are fused otherwise.

Before attention was cuDNN's, a head gathered once a step, and what a layer saves chosen by memory, the first three rows had
bounds of 0.22, 0.44 and 0.21, and read and wrote 570, 422 and 2,278 GB of S x S. Before layers were written out, and logits
kept, where memory has room: 0.62, 0.73 and 0.73.

gemma2's layers stay in a loop, which costs 6 % of its step (written out, its bound was 0.62 and its peak 39.5 GiB): no kernel of a GPU does scores with
a cap, and of XLA's own it has so many that all layers written out compile for 145 CPU seconds, in a loop for 37 ([starts.md](starts.md)).

"""


def measure(row: Row, folder: Path) -> dict[str, Any]:
    """Return what the table says of a row, by the names of COLUMNS; compiles in a process of its own."""
    project = folder / row.model
    if not project.exists():
        request = Request.from_flags(row.model, row.model, size=row.size, mesh=row.axes)
        create_project(request, folder)
    settings = [f"{name}={value}" for name, value in asdict(row).items()]
    return run_module("tables.performance_row", str(project), *settings)[0]


def written(cells: dict[str, list[str]]) -> str:
    """Return the whole file, of {name of a row: its cells}."""
    lines = [line("program", COLUMNS.values()), "|---" * (1 + len(COLUMNS)) + "|"]
    rows = [row for row in ROWS if row.name in cells]
    lines += [line(row.name, cells[row.name]) for row in rows]
    reasons = [f"- {row.model} {row.size}: {row.reason}." for row in rows if row.reason]
    if reasons:
        lines += ["", f"Why a bound is below {GOAL}:", "", *reasons]
    return INTRODUCTION + "\n".join(lines) + "\n"


def read(text: str) -> dict[str, list[str]]:
    """Return {name of a row: its cells} of the file."""
    rows = [part[2:-2].split(" | ") for part in text.splitlines() if part.startswith("| ")]
    return {name: cells for name, *cells in rows[1:]}


def cells_of(record: dict[str, Any]) -> list[str]:
    """Return the cells of a record; "" for what is not there."""
    places = {
        "bound": 2,
        "products": 0,
        "attention": 0,
        "other": 0,
        "ratio": 2,
        "peak": 1,
        "gathered": 1,
        "scattered": 1,
        "waited": 0,
        "squares": 0,
    }
    return [f"{record[k]:.{places[k]}f}" if k in record else "" for k in COLUMNS]


def main() -> None:
    chosen = sys.argv[1:] or [row.name for row in ROWS]
    for row in ROWS:
        if row.name in chosen:
            with tempfile.TemporaryDirectory() as folder:
                record = measure(row, Path(folder))
            cells = read(TABLE.read_text()) if TABLE.exists() else {}
            TABLE.write_text(written(cells | {row.name: cells_of(record)}))
            print(row.name, record, flush=True)


if __name__ == "__main__":
    main()
