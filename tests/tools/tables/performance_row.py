"""Compiles the train step of a project; prints a record of performance.py as JSON.

    python -m tables.performance_row FOLDER model=llama size=7b rows=16 ...

Runs in the environment of targets.py.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import jax
from compiled.targets import target_of
from compiled.train_step import Compiled, compile_train
from redco_fit.compiled.hlo import collectives
from redco_fit.compiled.products import seen
from redco_fit.compiled.roofline import H100, bound
from tables.performance import Row


def compile_row(row: Row, folder: Path, length: int) -> Compiled:
    """Compile the step of a row with texts of `length` tokens."""
    devices = target_of(row.target, prod(row.mesh.values()))
    sizes = {"remat": row.remat} if row.remat else {}
    return compile_train(folder, devices, row.mesh, row.rows, length, sizes)


def measure(row: Row, folder: Path) -> dict[str, Any]:
    """Return the record of a row, by the names of performance.COLUMNS."""
    step = compile_row(row, folder, row.length)
    count = prod(row.mesh.values())
    parts = row.mesh.get("expert", 1)
    cost = bound(step.text, count, H100, row.length, expert_parts=parts)
    if cost["squares"]:
        cost["squares"] = bound_of_squares(row, folder, count)
    record = {"peak": step.peak / 2**30, "squares": cost["squares"] / 1e9}
    if row.target == "h100":
        flops = model_flops(step, row) / count
        seconds = max(cost["seconds"], cost["link"])
        record |= {"bound": flops / H100.flops / seconds, "ratio": cost["flops"] / flops}
        parts = ("products", "attention", "other")
        record |= {part: 100 * cost[part] / cost["seconds"] for part in parts}
        record |= {"waited": 1000 * cost["exposed"]}
        sent = Counter()
        for one in collectives(step.text, count):
            sent[one.kind] += one.runs * one.bytes
        record |= {"gathered": sent["all-gather"] / 1e9, "scattered": sent["reduce-scatter"] / 1e9}
    return record


def bound_of_squares(row: Row, folder: Path, count: int) -> float:
    """Return the bytes of S x S at another length: one of the two may be a width of the model."""
    other = row.length + 128
    return bound(compile_row(row, folder, other).text, count, H100, other)["squares"]


def model_flops(step: Compiled, row: Row) -> float:
    """Return the model FLOPs of a step over all devices; of experts, those that a token is sent to."""
    c, tokens = step.model, row.rows * row.length
    chosen = getattr(c, "experts_per_token", 1) / getattr(c, "num_experts", 1)
    matrices, untied = 0.0, any("head" in path.split("/") for path in step.params)
    for path, leaf in jax.tree.leaves_with_path(step.params):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        expert = len(leaf.shape) == 4  # L E D F
        looked_up = name.endswith("embedding") and untied
        matrices += 0 if looked_up else leaf.size * (chosen if expert else 1)
    window = min(getattr(c, "window", row.length), row.length)
    every = getattr(c, "global_every", 0)  # of Gemma's layers, one in so many attends to all
    whole = c.num_layers // every if every else c.num_layers * (window == row.length)
    pairs = whole * seen(row.length, row.length) + (c.num_layers - whole) * seen(row.length, window)
    return 6 * matrices * tokens + 12 * row.rows * pairs * c.num_heads * c.head_dim


def main() -> None:
    folder, *settings = sys.argv[1:]
    values = dict(setting.split("=", 1) for setting in settings)
    numbers = {name: int(values.pop(name)) for name in ("rows", "length")}
    print(json.dumps(measure(Row(**values, **numbers), Path(folder))), flush=True)


if __name__ == "__main__":
    main()
