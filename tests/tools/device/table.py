"""Writes RESULTS.md: what `redco fit` says of steps without their device, beside what the device then did.

    PYTHONPATH=tests python tests/tools/device/table.py

needs the compilers (`make compilers`). measured.jsonl has a line of ours.py for each step, with its model and size; and
with what was said of it then, GB and milliseconds, where projects are emitted otherwise by now.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables.markdown import row

from redco_fit.compiling import compile_step
from redco_fit.reading import Job, Reading
from redco_fit.target import parse_target
from redco_new.project.create import create_project
from redco_new.request import Request

HERE = Path(__file__).parent
MEASURED, PAGE, INTRODUCTION = (
    HERE / name for name in ("measured.jsonl", "RESULTS.md", "introduction.md")
)
COLUMNS = (
    *("step", "predicted GB", "real GB", "off", "estimated ms", "real ms", "off"),
    *("tokens/s", "MFU, %"),
)


def predict(one: dict[str, Any], folder: Path) -> Reading:
    """Return what the compiler of an H100 says of a measured step."""
    name = f"{one['model']}-{one['size']}".replace(".", "-")
    if not (folder / name).exists():
        create_project(Request.from_flags(name, one["model"], size=one["size"], shards="1"), folder)
    settings = {"remat": one["remat"]} if one["remat"] else {}
    if one["layers"]:
        settings["num_layers"] = one["layers"]
    return compile_step(
        folder / name, parse_target("h100"), Job({}, one["rows"], one["length"], settings)
    )


def said_of(one: dict[str, Any], folder: Path) -> tuple[float, float]:
    """Return the bytes and the seconds that were predicted of a measured step, or are now."""
    if one.get("loop"):
        size, milliseconds = one["said"]
        return size * 1e9, milliseconds / 1e3
    said = predict(one, folder)
    return said.peak_bytes, said.step_seconds


def cells(one: dict[str, Any], said: tuple[float, float], peak_flops: float) -> Iterator[str]:
    """Yield the cells of a step, by COLUMNS."""
    layers = f"{one['layers']} layers" if one["layers"] else ""
    extra = [one["remat"], layers, "in a loop" if one.get("loop") else ""]
    name = ", ".join(filter(None, [f"{one['model']} {one['size']}", *extra]))
    yield f"{name}, B {one['rows']}, S {one['length']}"
    for ours, real, unit in (
        (said[0], one["peak_bytes"], 1e9),
        (said[1], one["seconds"], 1e-3),
    ):
        yield from (f"{ours / unit:.1f}", f"{real / unit:.1f}", f"{100 * (ours / real - 1):+.1f} %")
    yield f"{one['rows'] * one['length'] / one['seconds']:,.0f}"
    yield f"{100 * one['flops'] / one['seconds'] / peak_flops:.1f}"


def main() -> None:
    lines = [row(COLUMNS[0], COLUMNS[1:]), row("---", ["---"] * (len(COLUMNS) - 1))]
    peak_flops = parse_target("h100").hardware.flops["bfloat16"]
    with tempfile.TemporaryDirectory() as folder:
        for one in map(json.loads, MEASURED.read_text().splitlines()):
            if not one["texts"]:
                first, *rest = cells(one, said_of(one, Path(folder)), peak_flops)
                lines.append(row(first, rest))
                print(lines[-1], flush=True)
    PAGE.write_text(INTRODUCTION.read_text() + "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
