"""Writes starts.md, the table of how long a run compiles, and how long it takes to its first step.

make table NAME=starts [ROW ...]      half an hour on two cores

With names of rows, others stay.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from redco_new.project.create import create_project
from redco_new.request import Request
from tables.collectives import run_module
from tables.markdown import row as line
from tables.performance import ROWS, Row

TABLE = Path(__file__).with_name("starts.md")
TINY, FULL = "A run of the preset `tiny` on a CPU", "The step of a published size, for H100"
# A kind of layers each.
MODELS = ("gpt2", "llama", "gpt-neox", "gemma2", "gemma3", "mixtral", "bert", "t5", "vit")
# Of performance.md: dense ones, one whose layers stay in a loop for a cap, and the two with experts.
PROGRAMS = (
    ("llama", "3.2-1b"),
    ("llama", "3.1-8b"),
    ("gemma2", "9b"),
    ("qwen3-moe", "30b-a3b"),
    ("mixtral", "8x7b"),
)
COLUMNS = {
    TINY: ("", "its step compiled", "first step made", "the whole run"),
    FULL: ("", "its step compiled", "instructions"),
}
INTRODUCTION = """\
# How long runs compile

Written by `make table NAME=starts`. CPU seconds of the process, which what else a machine does hardly changes; where it has cores for
all threads of a compiler, less time than that goes by.

"""
NOTES = {
    TINY: """\
`train --preset tiny --steps 1` of a project as `redco-new` writes it, on one device. Cold: nothing is compiled yet. Cached: the same in another work folder, with
what the first kept (`JAX_COMPILATION_CACHE_DIR`), as a restart finds it. By the run's own events.jsonl, its `compile`; and from the start of the process to the
end of the first step: Python's imports, data, and the evaluation before it too.
""",
    FULL: """\
Tracing, lowering and compiling the step of the preset `full` (AdamW) without devices, in a process of its own, as `redco fit` does; without the
processes of ptxas that XLA starts, and the kernels that it times on a device. Instructions: of the compiled program, loops once. No kernel of a GPU does
gemma2's scores with a cap, so its layers stay in a loop: written out they took 145 s and 94,146 instructions, with a bound of 0.62, not 0.58 (performance.md).
""",
}


@dataclass(frozen=True)
class Start:
    """What one run took, in CPU seconds.

    compiled: its step. first: from its start to the end of its first step. whole: to its end.
    """

    compiled: float
    first: float
    whole: float


def start(command: list[str], environment: Mapping[str, str], workdir: Path) -> Start:
    """Run a training, and return what it took. Raises RuntimeError with the end of its output if it fails."""
    output, times = workdir.with_suffix(".log"), list[float]()
    used = list[float]()
    with output.open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while process.poll() is None:
            times.append(time.time())
            used.append(cpu_seconds(process.pid))
            time.sleep(0.05)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output.read_text()[-4000:]}")
    events = [json.loads(one) for one in (workdir / "events.jsonl").read_text().splitlines()]

    def at(when: float) -> float:
        return float(np.interp(when, times, used))

    ends = ((one["event"], one["time"], one["time"] + one["seconds"]) for one in events)
    spans = [(kind, at(begin), at(end)) for kind, begin, end in ends]
    compiled = sum(end - begin for kind, begin, end in spans if kind == "compile")
    first = next(end for kind, _, end in spans if kind == "steps")
    return Start(compiled, first, max(used))


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process and its threads until now."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tiny_rows(model: str) -> dict[str, list[str]]:
    """Return name of a row -> its cells, of a model cold and from the cache."""
    with tempfile.TemporaryDirectory() as folder:
        project = create_project(Request.from_flags("starting", model), Path(folder))
        kept = {"JAX_COMPILATION_CACHE_DIR": f"{folder}/kept", "JAX_PLATFORMS": "cpu"}
        kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # as a project has it
        environment = os.environ | kept | {"PYTHONPATH": str(project)}
        rows = {}
        for way in ("cold", "cached"):
            workdir = Path(folder) / way
            flags = ["--preset", "tiny", "--steps", "1", "--virtual-devices", "1"]
            command = [sys.executable, "-m", "starting.train", *flags, "--workdir", str(workdir)]
            took = start(command, environment, workdir)
            rows[f"{model}, {way}"] = [f"{one:.1f}" for one in vars(took).values()]
    return rows


def full_rows(row: Row) -> dict[str, list[str]]:
    """Return name of a row -> its cells, of a published size."""
    with tempfile.TemporaryDirectory() as folder:
        request = Request.from_flags("starting", row.model, size=row.size, mesh=row.axes)
        project = create_project(request, Path(folder))
        settings = (f"{key}={value}" for key, value in vars(row).items())
        (record,) = run_module("tables.starts_row", str(project), *settings)
    return {row.name: [f"{record['cpu']:.0f}", f"{record['instructions']:,}"]}


def rows_of(text: str, title: str) -> dict[str, list[str]]:
    """Return name of a row -> its cells, of a section of the table as it is."""
    _, _, section = text.partition(f"## {title}\n")
    lines = [one for one in section.partition("\n## ")[0].splitlines() if one.startswith("| ")]
    cells = ([cell.strip() for cell in one.strip("|").split("|")] for one in lines[1:])
    return {first: rest for first, *rest in cells}


def written(sections: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    """Return the whole file. sections: title -> name of a row -> its cells."""
    text = INTRODUCTION
    for title, rows in sections.items():
        text += f"## {title}\n\n{NOTES[title]}\n"
        text += line(*COLUMNS[title][:1], COLUMNS[title][1:]) + "\n"
        text += "|---" * len(COLUMNS[title]) + "|\n"
        text += "".join(line(name, cells) + "\n" for name, cells in rows.items()) + "\n"
    return text.rstrip("\n") + "\n"


def main(names: list[str]) -> None:
    before = TABLE.read_text() if TABLE.exists() else ""
    sections = {title: rows_of(before, title) for title in COLUMNS}
    for model in MODELS:
        if not names or model in names:
            sections[TINY] |= tiny_rows(model)
            TABLE.write_text(written(sections))
    compiled = [next(r for r in ROWS if (r.model, r.size) == name) for name in PROGRAMS]
    for row in compiled:
        if row.name in names or not names:
            sections[FULL] |= full_rows(row)
            TABLE.write_text(written(sections))


if __name__ == "__main__":
    main(sys.argv[1:])
