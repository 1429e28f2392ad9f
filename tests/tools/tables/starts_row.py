"""Compiles the train step of a project; prints what that took, a record of starts.py, as JSON.

    python -m tables.starts_row FOLDER model=llama size=7b rows=16 ...

Runs in the environment of targets.py.
"""

from __future__ import annotations

import json
import sys
import time
from math import prod
from pathlib import Path

from compiled.targets import target_of
from redco_fit.reading import Job
from redco_fit.step import compile_train_step
from redco_fit.topology import devices_of
from tables.performance import Row


def main() -> None:
    folder, *settings = sys.argv[1:]
    given = dict(setting.split("=", 1) for setting in settings)
    numbers = {name: int(given.pop(name)) for name in ("rows", "length")}
    row = Row(**given, **numbers)
    target = target_of(row.target, prod(row.mesh.values()))
    job = Job(row.mesh, row.rows, row.length, {"max_positions": row.length})
    devices, began = devices_of(target), time.process_time()
    step = compile_train_step(Path(folder), "starting", target, devices, job)
    assert not step.refused, step.refused
    cpu = time.process_time() - began
    print(json.dumps({"cpu": cpu, "instructions": step.text.count(" = ")}))


if __name__ == "__main__":
    main()
