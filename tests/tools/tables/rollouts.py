"""Writes rollouts.md, the table of what rollouts of grpo compute and read for a token of an answer.

make table NAME=rollouts      ten minutes on two cores
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from redco_new.project.create import create_project
from redco_new.request import Request
from tables.markdown import row as line

TABLE = Path(__file__).with_name("rollouts.md")
QUESTIONS, GROUP, ROOM = 16, 8, 256
PROMPTS = (64, 256)
STEPS = 10
# An 8B in bfloat16 with 8 heads of keys and values in each of 32 layers: bytes of its weights, and of a slot.
WEIGHTS, SLOT = 16.1e9, 32 * 8 * 128 * 2 * 2
COLUMNS = (
    "way",
    "tokens of answers",
    "computed",
    "slots read",
    "steps",
    "GB of an 8B",
    "ms on a CPU",
    "s to compile",
)
INTRODUCTION = f"""\
# What rollouts compute and read

Written by `make table NAME=rollouts`: a round of the recipe `grpo`, {QUESTIONS} questions with {GROUP} answers each, of at most {ROOM} tokens. Before: every
token of the room is computed, all slots of the cache are read for it, and a question is read for each answer. After:
[answers.py](../../../runtime/redco_runtime/nn/answers.py). Both draw with a GPT-2 of 2 layers (width 64, float32), whose tokens end an answer by chance, so that lengths
are distributed as the title says.

For a token of an answer, its end included: tokens computed, questions too; slots of the cache read, a slot once for each row
and token; GB that an 8B reads, by the steps (its weights) and slots of this; ms on two cores, both ways in one process.

"""


def log_normal() -> list[int]:
    """Return lengths whose logarithm is normal, of deviation 0.8, with a mean of a third of the room."""
    spread = np.random.default_rng(0).lognormal(0, 0.8, 4096)
    scales = np.linspace(1, ROOM, 2000)
    means = [np.minimum(np.ceil(spread * scale), ROOM).mean() for scale in scales]
    scale = scales[np.searchsorted(means, ROOM / 3)]
    return np.minimum(np.ceil(spread * scale), ROOM).astype(int).tolist()


def drawn(project: Path, environment: dict[str, str], folder: Path) -> list[int]:
    """Return the lengths of the answers of the last round of a run of STEPS steps, from random weights."""
    settings = {"new-tokens": ROOM, "sequence-length": ROOM + 8, "max-positions": ROOM + 8}
    settings |= {"steps": STEPS, "eval-every": STEPS + 1, "virtual-devices": 1, "workdir": folder}
    flags = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", f"{project.name}.train", "--preset", "tiny", *flags]
    subprocess.run(command, env=environment, check=True)
    rows = sorted(folder.glob(f"rounds/{STEPS // 2 - 1}/*.npz"))
    return np.concatenate([np.load(path)["answered"].sum(axis=1) for path in rows]).tolist()


def cells_of(record: dict[str, Any]) -> list[str]:
    """Return the cells of a row, by COLUMNS."""
    useful = record["useful"]
    read = (record["steps"] * WEIGHTS + record["slots"] * SLOT) / 1e9
    return [
        record["way"],
        str(useful),
        f"{record['tokens'] / useful:.2f}",
        f"{record['slots'] / useful:.0f}",
        str(record["steps"]),
        f"{read / useful:.2f}",
        f"{1e3 * record['seconds'] / useful:.2f}",
        f"{record['compile']:.0f}",
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = create_project(Request.from_flags("drawing", "gpt2", recipe="grpo"), Path(folder))
        paths = os.pathsep.join([str(project), os.environ["PYTHONPATH"]])
        environment = os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
        kinds = {
            "Log-normal lengths of deviation 0.8, a third of the room in the mean": log_normal,
            f"Lengths of round {STEPS // 2} of the preset `tiny`, from random weights": partial(
                drawn, project, environment, Path(folder) / "run"
            ),
        }
        text = INTRODUCTION
        for title, lengths_of in kinds.items():
            lengths = lengths_of()
            text += f"## {title}: {np.mean(lengths):.0f} tokens\n\n"
            text += line("a question", COLUMNS) + "\n" + "|---" * (1 + len(COLUMNS)) + "|\n"
            for prompt in PROMPTS:
                sizes = map(str, (QUESTIONS, GROUP, prompt, ROOM))
                command = [sys.executable, "-m", "tables.rollouts_row", project.name, *sizes]
                pipes = {"stdout": subprocess.PIPE, "text": True, "check": True}
                found = subprocess.run(command, env=environment, input=json.dumps(lengths), **pipes)
                for record in map(json.loads, found.stdout.splitlines()):
                    text += line(f"{prompt} tokens", cells_of(record)) + "\n"
                print(text, flush=True)
            text += "\n"
            TABLE.write_text(text.rstrip("\n") + "\n")


if __name__ == "__main__":
    main()
