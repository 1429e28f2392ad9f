"""What `redco fit` prints: whether the step fits, its memory, its time, what devices send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from redco_new.inspect import page
from redco_new.inspect.text import WIDTH, make_grid
from redco_new.inspect.units import size_text

from redco_fit.hardware import HARDWARE
from redco_fit.page import render_reading
from redco_fit.reading import Reading
from redco_fit.words import lines_of

MOST = 12  # collectives that are shown; --json has all


def report_reading(
    title: str, reading: Reading, *, as_json: bool = False, html: Path | None = None
) -> None:
    """Print what the compiler said, as text or as JSON; write its page to `html`.

    Raises RedcoError if the disk does not let it.
    """
    if html:
        page.write_text(html, render_reading(title, reading))
    if as_json:
        print(json.dumps({"model": title, **reading.to_dict()}, indent=2))
        return
    console = make_console()
    for line in lines_of(title, reading):
        console.print(line, soft_wrap=True)
    if reading.collectives:
        console.print()
        console.print(_collective_table(reading))
    if html:
        console.print(f"\nWrote {html}: open it in a browser.")


def print_hardware() -> None:
    """Print the machines that --hardware names, with their figures."""
    table = make_grid(
        *("name", "device", "memory", "for arrays", "bfloat16", "float32", "memory, a second"),
        *("link, each way", "between hosts"),
    )
    for one in HARDWARE.values():
        flops = (f"{one.flops[dtype] / 1e12:.0f} TFLOP/s" for dtype in ("bfloat16", "float32"))
        speeds = (size_text(speed) for speed in (one.bandwidth, one.link, one.host_link))
        table.add_row(
            one.name, one.kind, size_text(one.memory), size_text(one.usable), *flops, *speeds
        )
    console = make_console()
    console.print(table)
    console.print(
        "\nSHAPE: h100:8 devices, h100:4x8 hosts and devices of each; v5e:4x4, v5p:4x4x8 chips along each side "
        "of a slice, or v5p:128 in all.",
        soft_wrap=True,
    )


def make_console() -> Any:
    """Return a console that breaks no line where the output is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


def _collective_table(reading: Reading) -> Any:
    """Return a row for each collective, the largest first."""
    table = make_grid("collective", "over", "a step", "bytes", "of")
    for one in reading.collectives[:MOST]:
        source = one.source.removeprefix("jit(train)/")
        table.add_row(one.kind, one.axis, str(one.count), size_text(one.bytes), source)
    rest = reading.collectives[MOST:]
    if rest:
        table.add_row(f"{len(rest)} more", "", "", size_text(sum(x.bytes for x in rest)), "--json")
    return table
