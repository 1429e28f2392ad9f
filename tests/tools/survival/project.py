"""The project of a small network that is killed, stopped and given bad data; how its processes are started."""

import os
from pathlib import Path

from redco_new.project.create import create_project
from redco_new.request import Request

HERE = Path(__file__).resolve().parent
NAME = "killed"
# Appended to its pipeline.py: what goes wrong in its eighth batch, or before, by the environment.
FAULTY = """

import os
import time
from pathlib import Path

from killed.runtime.base import progress

progress.LONG = float(os.environ.get("LONG", progress.LONG))
sound_collate, sound_examples, calls = collate, examples, []


def collate(rows):
    batch, fault = sound_collate(rows), os.environ.get("FAULT")
    calls.append(1)
    if fault == "slow" and len(calls) > 12:
        time.sleep(5)
    if fault and len(calls) == 8:
        Path(os.environ["FAULT_AT"]).touch()
        if fault == "hang":
            time.sleep(3600)
        if fault == "raise":
            raise RuntimeError("a bug")
        if fault == "exit":
            os._exit(0)
        if fault == "nan":
            batch["x"] = batch["x"] * np.nan
        if fault == "ragged":
            batch["x"] = np.stack([row["x"][: 5 + i] for i, row in enumerate(rows)])
        if fault == "object":
            batch["x"] = batch["x"].astype(object)
        if fault == "width":
            batch["x"] = batch["x"][:, :-1]
        if fault == "short":
            batch["x"] = batch["x"][:-1]
    return batch


def examples(config):
    rows, held_out = sound_examples(config)
    if os.environ.get("FAULT") == "stuck":
        Path(os.environ["FAULT_AT"]).touch()
        time.sleep(3600)
    if os.environ.get("FAULT") == "other data":
        rows[0]["x"][0] += 1
    return rows, held_out
"""


def make_project(folder: Path) -> None:
    """Create the project in `folder`."""
    request = Request.from_flags(
        NAME,
        str(HERE / "net.py:Net"),
        example=str(HERE / "net.py:example"),
        recipe="regress",
        shards="2",
        features="buckets,elastic",  # of kills.py --bucket, and of elastic.py
        folder=folder / NAME,
    )
    create_project(request, folder)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which programs of the project in `folder` run."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("XLA_")}
    return mine | {
        "PYTHONPATH": f"{folder / NAME}:{HERE}:{os.environ.get('BUCKET', '')}",
        "JAX_PLATFORMS": "cpu",
        # Of all programs, so that a restart compiles nothing.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
