"""Our side of a case, as a user has it: `redco-new`, then `train`, whose metrics.jsonl is read."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cases import STEPS, Case
from rows import LENGTH

BIN = Path(sys.executable).parent
DATA = {"image": "--image-data"}
# train.py, which keeps the batches of all steps: for a peer that cannot draw as ours does.
RECORDED = """
import jax, numpy
from mine.runtime.{module} import {name}
from mine import pipeline, train
taken, made = {name}.__next__, []
def take(self):
    made.append(jax.device_get(batch := taken(self)))
    return batch
{name}.__next__ = take
pipeline.REWARDS = ((lambda question, answer, text: len(set(text)) / 16, 1.0),)
train.main()
numpy.savez({path!r}, **{{key: numpy.stack([one[key] for one in made]) for key in made[0]}})
"""


def folder_of(case: Case, root: Path) -> Path:
    """Return where a case has what is its own."""
    return root / case.name.replace(", ", "-").replace(" ", "-")


def run(command: list[str], folder: Path, log: Path) -> None:
    """Run a command in a folder, its output in a file there. Raises CalledProcessError."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as file:
        subprocess.run(command, cwd=folder, check=True, stdout=file, stderr=file, env=environment)


def create(case: Case, folder: Path) -> None:
    """Write the project of a case."""
    flags = [part for key, value in case.create.items() for part in (f"--{key}", value)]
    run(
        [f"{BIN}/redco-new", "mine", "--recipe", case.recipe, "--model", "./model"]
        + ["--dtype", "float32", *flags],
        folder,
        folder / "create.log",
    )


def arguments(case: Case, folder: Path) -> list[str]:
    """Return the flags of train."""
    rows, count = folder / "rows.jsonl", count_rows(case, folder)
    init = folder / ("adapter" if "adapter" in case.options else "model")
    flags = ["--workdir", str(folder / "run"), "--virtual-devices", "1", "--init", str(init)]
    flags += [DATA.get(case.recipe, "--data"), str(rows), "--dtype", "float32"]
    flags += ["--steps", str(STEPS), "--batch-size", str(count)]
    flags += ["--micro-batches", str(case.micro), "--learning-rate", str(case.rate)]
    flags += ["--schedule", case.schedule, "--final-rate", "0", "--warmup-steps", "0"]
    flags += ["--log-every", "1", "--eval-every", "1000", "--save-every", "1000"]
    if case.by == "distil":
        flags += ["--teacher", str(folder / "teacher")]
    if case.recipe == "image":
        flags += ["--held-out", "0", "--shift", "0", "--sample-prompts", "0"]
    else:
        flags += ["--tokenizer", str(folder / "model"), "--sequence-length", str(LENGTH)]
    if case.recipe not in ("image", "grpo"):
        flags += ["--token-folder", str(folder / "tokens"), "--held-out", "0"]
    return [*flags, *case.flags]


def count_rows(case: Case, folder: Path) -> int:
    """Return how many rows a step has: all, but one of pictures, which is held out."""
    count = len((folder / "rows.jsonl").read_text().splitlines())
    return {"texts": count // 2, "pictures": count - 1}.get(case.rows, count)


def train(case: Case, folder: Path) -> None:
    """Train ours, and write how many rows it has in a step, and, where a peer needs them, its batches."""
    flags = arguments(case, folder)
    (folder / "count").write_text(str(count_rows(case, folder)))
    code = ["-m", "mine.train"]
    if case.by in ("masked", "image", "grpo"):
        module, name = (
            ("actors.rounds", "Rounds") if case.by == "grpo" else ("data.batches", "TrainBatches")
        )
        path = str(folder / "batches.npz")
        code = ["-c", RECORDED.format(module=module, name=name, path=path)]
    run([sys.executable, *code, *flags], folder / "mine", folder / "train.log")


def figures(folder: Path) -> list[list[float]]:
    """Return the loss and the norm of the gradient at each step."""
    lines = [json.loads(x) for x in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return [[one["loss"], one["grad_norm"]] for one in lines]
