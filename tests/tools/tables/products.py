"""Writes products.md, the table of what products in 8 bits bring: steps compiled, and losses trained.

make table NAME=products [ROW ...]      forty minutes on two cores

With names of rows, others stay.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from redco_fit import Job, compile_step, parse_target
from redco_new.project.create import create_project
from redco_new.request import COMPUTE, Request
from tables.collectives import run_module
from tables.markdown import row as line
from tables.performance import Row, read

TABLE = Path(__file__).with_name("products.md")
PRODUCTS = (COMPUTE, "float8")
COMPILED = (
    Row("llama", "3.1-8b", 8, 8192),
    Row("llama", "7b", 16, 2048),
    Row("llama", "7b", 16, 2048, axes="fsdp=4,model=2"),
)
COLUMNS = {
    "step": ("kernels ms", 0),
    "products": ("products ms", 0),
    "memory": ("memory ms", 0),
    "waited": ("waited ms", 0),
    "calls": ("calls in 8 bits", 0),
    "share": ("FLOPs in 8 bits %", 0),
    "gathered": ("gathered GB", 1),
    "peak": ("peak GiB", 1),
}
# int8, where a device of TPUs has it.
ON_TPU = (
    Row("llama", "7b", 16, 2048, target="v5p:2x2x2"),
    Row("llama", "7b", 16, 2048, target="v6e:2x4"),
)
TPU_PRODUCTS = (COMPUTE, "int8")
TPU_COLUMNS = {
    "step": "step, estimated ms",
    "share": "FLOPs in 8 bits %",
    "sent": "sent GB",
    "peak": "peak GiB",
}
TRAINED = ("llama", "gpt2")
TRAINED_IN = (COMPUTE, "float8", "int8")
SEEDS, STEPS = (0, 1, 2), 300
INTRODUCTION = """\
# What products in 8 bits bring

Written by `make table NAME=products`. No GPU was at hand: nothing here was timed on one.

## Compiled

The train step (preset `full`, AdamW, bfloat16) of projects as `redco-new --products float8` emits them, compiled for 8 H100 without devices, with
that and with `--products compute`. Per device and step, by [roofline.py](../../../generator/redco_fit/compiled/roofline.py): kernels one after the
other, products of float8 at 1,979 TFLOP/s, others at 989; memory: kernels that read and write only; waited: for collectives, with nothing to
compute meanwhile. A layer of llama has seven linear layers, three products each in a step: what is not in 8 bits is the head and attention.

"""
TPUS = """
## Compiled for TPUs

The same with `--products int8`, for 8 TPUs, as `redco fit` has them. An int8 kernel's gradient is no product of integers, as each token has a scale
of its own, nor are the head and attention: two of three products of a layer are.

"""
LOSSES = """
## Trained

Held-out losses of the preset `tiny` in bfloat16 after {steps} steps on a CPU, which rounds to the same numbers, of seeds {seeds}. Evaluated in
bfloat16, as a run does. Spread: standard deviation over the seeds.

"""


def name_of(row: Row, products: str) -> str:
    """Return what the table calls a program."""
    return f"{row.name}, {products}"


def compile_program(row: Row, products: str, folder: Path) -> list[str]:
    """Return the cells of a program that is compiled anew."""
    flags = {"size": row.size, "mesh": row.axes, "products": products}
    project = create_project(Request.from_flags("program", row.model, **flags), folder)
    arguments = (str(project), row.axes, str(row.rows), str(row.length), row.target)
    return cells_of(run_module("tables.products_row", *arguments)[0])


def cells_of(record: dict[str, Any]) -> list[str]:
    """Return the cells of a record."""
    return [f"{record[name]:.{places}f}" for name, (_, places) in COLUMNS.items()]


def compile_on_tpu(row: Row, products: str, folder: Path) -> list[str]:
    """Return the cells of a program for TPUs that is compiled anew."""
    flags = {"size": row.size, "mesh": row.axes, "products": products}
    project = create_project(Request.from_flags("program", row.model, **flags), folder)
    found = compile_step(project, parse_target(row.target), Job(row.mesh, row.rows, row.length))
    share, sent = found.coded_flops / found.flops, sum(one.bytes for one in found.collectives)
    figures = (1e3 * found.step_seconds, 100 * share, sent / 1e9, found.peak_bytes / 2**30)
    return [f"{one:.0f}" for one in figures[:2]] + [f"{one:.1f}" for one in figures[2:]]


def train_model(model: str, products: str, folder: Path) -> list[str]:
    """Return the cells of a model that is trained anew: losses of the seeds, their mean and spread."""
    project = create_project(
        Request.from_flags("trained", model, mesh="data=1", products="float8"), folder
    )
    records = run_module("tables.products_losses", "trained", products, path=str(project))
    losses = [record["loss"] for record in records]
    return [*(f"{loss:.3f}" for loss in losses), f"{mean(losses):.3f}", f"{stdev(losses):.3f}"]


def written(cells: dict[str, list[str]]) -> str:
    """Return the whole file, of {name of a row: its cells}."""
    compiled = [name_of(row, products) for row in COMPILED for products in PRODUCTS]
    trained = [f"{model}, {products}" for model in TRAINED for products in TRAINED_IN]
    titles = [*(f"seed {seed}" for seed in SEEDS), "mean", "spread"]
    on_tpu = [name_of(row, products) for row in ON_TPU for products in TPU_PRODUCTS]
    parts = [INTRODUCTION, *_table("program", [x for x, _ in COLUMNS.values()], compiled, cells)]
    if {*on_tpu} & {*cells}:
        parts += [TPUS, *_table("program", TPU_COLUMNS.values(), on_tpu, cells)]
    if {*trained} & {*cells}:
        parts.append(LOSSES.format(steps=STEPS, seeds=", ".join(map(str, SEEDS))))
        parts += _table("model", titles, trained, cells)
    return "".join(parts)


def _table(
    first: str, titles: Iterable[str], rows: list[str], cells: dict[str, list[str]]
) -> Iterable[str]:
    yield line(first, titles) + "\n" + "|---" * (1 + len(titles)) + "|\n"
    yield from (line(row, cells[row]) + "\n" for row in rows if row in cells)


def main() -> None:
    kinds = (
        (compile_program, COMPILED, PRODUCTS, name_of),
        (compile_on_tpu, ON_TPU, TPU_PRODUCTS, name_of),
        (train_model, TRAINED, TRAINED_IN, "{}, {}".format),
    )
    makers = {
        name(row, products): partial(make, row, products)
        for make, rows, kinds_of_products, name in kinds
        for row in rows
        for products in kinds_of_products
    }
    for name in sys.argv[1:] or makers:
        with tempfile.TemporaryDirectory() as folder:
            made = makers[name](Path(folder))
        cells = read(TABLE.read_text()) if TABLE.exists() else {}
        TABLE.write_text(written(cells | {name: made}))
        print(line(name, made), flush=True)


if __name__ == "__main__":
    main()
