"""Compiles the train step of a project with products in 8 bits or without; prints a record of products.py as JSON.

    python -m tables.products_row FOLDER AXES ROWS LENGTH TARGET [SIZE=N ...]

Runs in the environment of targets.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

from compiled.targets import target_of
from compiled.train_step import compile_train
from redco_fit.compiled.hlo import collectives
from redco_fit.compiled.roofline import H100, bound
from tables.performance import Row


def read_text(text: str, peak: int, devices: int, length: int) -> dict[str, Any]:
    """Return the record of a program, by the names of products.COLUMNS."""
    cost, sent = bound(text, devices, H100, length), Counter[str]()
    for one in collectives(text, devices):
        sent[one.kind] += one.runs * one.bytes
    calls = Counter(re.findall(r'custom_call_target="__cublas\$lt\$matmul(\$f8)?"', text))
    return {
        "step": 1e3 * cost["seconds"],
        "products": 1e3 * cost["products"],
        "memory": 1e3 * cost["other"],
        "waited": 1e3 * cost["exposed"],
        "calls": calls["$f8"],
        "share": 100 * cost["flops8"] / cost["flops"],
        "gathered": sent["all-gather"] / 1e9,
        "peak": peak / 2**30,
    }


def main() -> None:
    folder, axes, rows, length, target, *sizes = sys.argv[1:]
    row = Row("llama", "", int(rows), int(length), axes=axes)
    count, machine = prod(row.mesh.values()), target_of(target, prod(row.mesh.values()))
    model = {name: int(value) for name, value in (one.split("=") for one in sizes)}
    step = compile_train(Path(folder), machine, row.mesh, row.rows, row.length, model)
    print(json.dumps(read_text(step.text, step.peak, count, row.length)), flush=True)


if __name__ == "__main__":
    main()
