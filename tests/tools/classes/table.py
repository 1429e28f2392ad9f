"""The table of the classes: records of a run as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from classes.cases import CASES

NOTE = 160
TABLE = Path(__file__).with_name("classes.md")
INTRODUCTION = """\
# Classes of packages that were not written for this

Written by `make test-apart NAME=classes`. Each class is created from its own constructor with the lines of
[its example](examples) for 4 shards, trained for three steps on 4 virtual CPU devices at a small size, and the
tests of its project are run. At real widths (`large`; two layers) the emitted train step is compiled for 4 H100
that are not here: the bytes that a device sends, in MB, in the layout of the project and in
[the plan by hand](plans.py), of the same parameters.

{run} A class whose note gives a reason sends more than the plan by hand.

*created*, *trained*: seconds of the command that creates the project, and of the one that compiles, trains,
evaluates and saves it, on two cores. *wrapper*: whether the class had to be called from one of our own.
*held*: the share of the parameters that a device holds, 25 % at best.
"""
COLUMNS = (
    *("case", "class", "package", "lines", "wrapper", "created", "trained", "losses"),
    *("tests", "ours", "by hand", "held", "note"),
)


def rows(records: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the cells of each case that has a record."""
    return [
        [
            case.name,
            case.cls.split(":")[1],
            case.package,
            str(case.lines),
            "yes" if ".py:" in case.cls else "no",
            *cells(records[case.name]),
            case.reason or brief("; ".join(records[case.name]["faults"])),
        ]
        for case in CASES
        if case.name in records
    ]


def brief(fault: str) -> str:
    """Return what a fault says, in one cell: without the folders of paths, NOTE characters at most."""
    said = re.sub(r"\S*/", "", " ".join(fault.split())).replace("|", "/")
    return said if len(said) <= NOTE else said[:NOTE] + "..."


def cells(record: Mapping[str, Any]) -> list[str]:
    """Return what was measured of a case, as text: "-" for what was not."""
    layouts = [record.get("compiled", {}).get(layout, {}) for layout in ("ours", "hand")]
    bytes_ = [f"{one['bytes'] / 1e6:.1f}" if "bytes" in one else "-" for one in layouts]
    held = f"{100 * layouts[0]['held']:.0f} %" if "held" in layouts[0] else "-"
    losses = ", ".join(f"{loss:.3f}" for loss in record.get("losses", ())) or "-"
    seconds = [f"{record[key]:.0f}" if key in record else "-" for key in ("created", "trained")]
    return [*seconds, losses, record.get("tests", "-"), *bytes_, held]


def written(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the whole file."""
    introduction = INTRODUCTION.format(run=run_of(records))
    lines = [introduction, row(COLUMNS), "|---" * len(COLUMNS) + "|"]
    return "\n".join([*lines, *map(row, rows(records)), ""])


def run_of(records: Mapping[str, Mapping[str, Any]]) -> str:
    """Return which tree was measured, in a sentence: one, or of which classes each."""
    trees: dict[str, list[str]] = {}
    for name, record in records.items():
        trees.setdefault(record["commit"], []).append(name)
    if len(trees) == 1:
        return f"All rows are of the tree of commit {next(iter(trees))}."
    rows = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in trees.items())
    return f'The rows are of the trees of several commits ({rows}); "-" was not measured.'


def row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def read_records(folder: Path) -> dict[str, Any]:
    """Return the records in a folder, by the names of their cases."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
